//! The terminal: its size, its colors, and its settings, which rprof restores after a killed command.

pub(crate) mod output;
pub(crate) mod pager;
pub(crate) mod progress;

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

use crate::cli::Color;

/// Returns the width of standard output's terminal; `None` without a terminal or if unknown.
pub(crate) fn width() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns its height, in lines.
pub(crate) fn height() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|height| *height > 0)
}

/// Returns the width of standard error's terminal; `None` without one.
pub(crate) fn width_of_messages() -> Option<usize> {
    let size = tcgetwinsize(rustix::stdio::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Resolves `auto` by NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM=dumb, and whether stdout is a
/// terminal.
pub(crate) fn wants_color(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
    }
}

/// Terminal settings from before the command's start.
///
/// A killed program may leave the terminal in another mode. The shell sees a normal exit, so rprof
/// restores it.
pub(crate) struct Terminal(Option<Termios>);

impl Terminal {
    /// Reads the settings, if standard input is a terminal with rprof in the foreground.
    pub(crate) fn remember() -> Terminal {
        let is_ours = is_in_foreground();
        Terminal(
            is_ours
                .then(|| tcgetattr(rustix::stdio::stdin()).ok())
                .flatten(),
        )
    }

    /// Restores the settings after a signal ended the command.
    pub(crate) fn restore(&self) {
        // In the background, SIGTTOU would stop rprof.
        if let Some(settings) = self.0.as_ref().filter(|_| is_in_foreground()) {
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, settings).ok();
        }
    }
}

/// Returns true if standard input is a terminal with our process group in the foreground.
fn is_in_foreground() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns true if the command received this signal too: Ctrl-C reaches both.
pub(crate) fn has_reached_command(signal: i32) -> bool {
    signal == signal_hook::consts::SIGINT && signals_command()
}

/// Returns true if Ctrl-C reaches the command: it is in our process group, in the foreground.
fn signals_command() -> bool {
    tcgetpgrp(rustix::stdio::stdin())
        .or_else(|_| tcgetpgrp(rustix::stdio::stderr()))
        .is_ok_and(|group| group == rustix::process::getpgrp())
}
