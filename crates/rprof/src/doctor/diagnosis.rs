//! Checks of a diagnosis, and their states.

/// Severity of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    /// No limit.
    Ok,
    /// Recording works, but not for everything.
    Limited,
    /// Nothing can be recorded.
    Blocked,
}

impl State {
    /// `ok`, `limited` or `blocked`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Blocked => "blocked",
        }
    }
}

/// One thing that can limit or block recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Stable name, for programs.
    pub(crate) id: &'static str,
    /// Subject, for people.
    pub(crate) what: &'static str,
    /// Severity.
    pub(crate) state: State,
    /// Value or result that was found.
    pub(crate) found: String,
    /// Remedy with the least privilege.
    pub(crate) fix: Option<String>,
}

/// Result of all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// Checks, the most important first.
    pub(crate) checks: Vec<Check>,
    /// `record` of one's own command would work.
    pub(crate) can_record: bool,
}
