//! The terminal, as a shell keeps it.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The settings of the terminal when the command was started.
///
/// A program that puts the terminal into another mode and is then killed leaves it so.
/// A shell that had started it would put the mode back; as rprof stands between them, and
/// the shell sees an exit and no signal, this is for rprof to do.
pub(crate) struct Terminal(Option<Termios>);

impl Terminal {
    /// Takes note of the settings, if standard input is a terminal of ours.
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

/// Whether standard input is a terminal whose foreground process group is ours.
fn is_in_foreground() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Whether a Ctrl-C at the terminal reaches the command without our doing: it is
/// in our process group, and that is the one in the foreground.
pub(crate) fn signals_command() -> bool {
    tcgetpgrp(rustix::stdio::stdin())
        .or_else(|_| tcgetpgrp(rustix::stdio::stderr()))
        .is_ok_and(|group| group == rustix::process::getpgrp())
}
