//! Result of a command, with assertions.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::shell::HANG;

/// Result of a command. `Display` shows everything.
pub(crate) struct Run {
    pub(super) line: String,
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Run {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.stdout
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn exits(&self, code: i32) -> &Run {
        let ended = self.status.code() == Some(code);
        assert!(ended, "exit status {code} was expected of\n{self}");
        self
    }

    pub(crate) fn prints(&self, text: &str) -> &Run {
        assert!(
            self.out().contains(text),
            "no {text:?} in stdout of\n{self}"
        );
        self
    }

    pub(crate) fn says(&self, text: &str) -> &Run {
        assert!(
            self.err().contains(text),
            "no {text:?} in stderr of\n{self}"
        );
        self
    }

    pub(crate) fn says_nothing(&self) -> &Run {
        assert!(self.stderr.is_empty(), "stderr is not empty of\n{self}");
        self
    }

    /// Checks that perf reports only lost records, which every reader lacks.
    pub(crate) fn complains_of_losses_only(&self) -> &Run {
        let err = self.err();
        let is_known = |line: &str| {
            ["", "Warning:", "Check IO/CPU overload!"].contains(&line)
                || line.starts_with("Processed ") && line.contains(" and lost ")
        };
        let other = err.lines().find(|line| !is_known(line.trim()));
        assert!(other.is_none(), "{other:?} in stderr of\n{self}");
        self
    }

    /// Checks for control characters other than newline and tab.
    pub(crate) fn is_clean(&self) -> &Run {
        for text in [self.out(), self.err()] {
            let bad = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
            if let Some(c) = text.chars().find(bad) {
                panic!("{c:?} in the output of\n{self}");
            }
        }
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ {}", self.line)?;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(f, "exit status {code}")?,
            (_, Some(9)) => writeln!(f, "killed (after {} s, if not by the test)", HANG.as_secs())?,
            (_, signal) => writeln!(f, "ended by signal {signal:?}")?,
        }
        for (name, text) in [("stdout", self.out()), ("stderr", self.err())] {
            writeln!(f, "--- {name} ({} bytes)", text.len())?;
            let (mut lines, mut shown) = (text.lines(), 0);
            for line in lines.by_ref().take(100) {
                writeln!(f, "{}", line.escape_debug())?;
                shown += 1;
            }
            match lines.count() {
                0 => {}
                n => writeln!(f, "[{n} more lines than these {shown}]")?,
            }
        }
        Ok(())
    }
}
