//! Messages on stderr, and failures with exit statuses.

use std::fmt::Display;
use std::io::{self, Write};

use rprof_export::clean::{clean, shorten_words};
use rprof_export::wrap::wrap;
use rprof_perf_event::errno::with_names;

use crate::terminal::progress::suspend;
use crate::terminal::width_of_messages;

/// Prints a line to stderr, prefixed with `rprof: `.
///
/// File and function names are untrusted: control characters are removed, and long names shortened.
///
/// Ignores errors, where `eprintln!` would panic: a full disk or closed terminal must not end a
/// recording.
pub(crate) fn say(message: impl Display) {
    let message = message.to_string();
    let message = clean(&with_names(&message)).into_owned();
    let message = format!("rprof: {}", shorten_words(&message));
    let width = width_of_messages().unwrap_or(usize::MAX);
    let mut text = String::new();
    for (index, line) in wrap(&message, width).into_iter().enumerate() {
        let indent = if index == 0 { "" } else { "  " };
        text.push_str(indent);
        text.push_str(line);
        text.push('\n');
    }
    suspend(|| {
        anstream::stderr().write_all(text.as_bytes()).ok();
    });
}

pub(crate) struct Failure {
    status: u8,
    error: anyhow::Error,
}

impl Failure {
    pub(crate) fn with_status(status: u8, error: impl Into<anyhow::Error>) -> Failure {
        Failure {
            status,
            error: error.into(),
        }
    }

    pub(crate) fn context(self, what: String) -> Failure {
        Failure {
            status: self.status,
            error: self.error.context(what),
        }
    }

    pub(crate) fn text(&self) -> String {
        full_text(&self.error)
    }

    /// Prints the error, and returns the exit status. Returns `None` silently if the reader closed
    /// the pipe.
    pub(crate) fn report(&self) -> Option<u8> {
        if is_broken_pipe(self.error.as_ref()) {
            return None;
        }
        say(full_text(&self.error));
        Some(self.status)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::with_status(1, error)
    }
}

/// Joins an error and its causes, without repeated ones.
fn full_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

pub(crate) fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.into_iter().any(|cause| {
        (cause.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::other("disk on fire");
        let plain = anyhow::Error::new(cause()).context("cannot write x");
        assert_eq!(full_text(&plain), "cannot write x: disk on fire");
        let said = anyhow::Error::new(cause()).context("cannot write x: disk on fire");
        assert_eq!(full_text(&said), "cannot write x: disk on fire");
    }
}
