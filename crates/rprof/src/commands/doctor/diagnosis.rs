//! Checks of a diagnosis, and their states.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    Ok,
    /// Recording works with limits.
    Limited,
    /// Recording is impossible.
    Blocked,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Blocked => "blocked",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Stable name for programs.
    pub(crate) id: &'static str,
    /// Subject for people.
    pub(crate) what: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    /// Remedy with the least privilege.
    pub(crate) fix: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// Checks, most important first.
    pub(crate) checks: Vec<Check>,
    /// True if `record` works for the user's own command.
    pub(crate) can_record: bool,
}
