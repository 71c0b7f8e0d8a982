//! The terminal: its width, and its settings, restored after a command that was killed, as by a shell.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

/// Returns the width of the terminal that standard output is, in characters; `None` if it is none, or does
/// not tell.
pub(crate) fn width() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns the height of that terminal, in lines.
pub(crate) fn height() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|height| *height > 0)
}

/// Returns the width of the terminal that standard error is, in characters; `None` if it is none.
pub(crate) fn width_of_messages() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Settings of the terminal when the command was started.
///
/// A program that puts the terminal into another mode and is then killed leaves it so.
/// A shell that had started it would put the mode back; as rprof stands between them, and
/// the shell sees an exit and no signal, this is for rprof to do.
pub(crate) struct Terminal(Option<Termios>);

impl Terminal {
    /// Reads the settings, if standard input is a terminal and rprof is in its foreground.
    pub(crate) fn remember() -> Terminal {
        let is_ours = is_in_foreground();
        Terminal(
            is_ours
                .then(|| tcgetattr(rustix::stdio::stdin()).ok())
                .flatten(),
        )
    }

    /// Puts the settings back, after a signal ended the command.
    pub(crate) fn restore(&self) {
        // From the background this would stop us with SIGTTOU.
        if let Some(settings) = self.0.as_ref().filter(|_| is_in_foreground()) {
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, settings).ok();
        }
    }
}

/// Returns true if standard input is a terminal whose foreground process group is ours.
fn is_in_foreground() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns true if the command has got a signal as well that came to rprof: Ctrl-C goes to both.
pub(crate) fn has_reached_command(signal: i32) -> bool {
    signal == signal_hook::consts::SIGINT && signals_command()
}

/// Returns true if Ctrl-C reaches the command from the terminal: it is in our process group, and that is in
/// the foreground.
fn signals_command() -> bool {
    tcgetpgrp(rustix::stdio::stdin())
        .or_else(|_| tcgetpgrp(rustix::stdio::stderr()))
        .is_ok_and(|group| group == rustix::process::getpgrp())
}
