//! Diagnosis: may this user profile here, and if not, why not?
//!
//! ```text
//!   Facts (settings, limits, rights, from files) -----+
//!                                                     +--> checks: each with a state and a fix
//!   Tries (perf_event_open, really called) -----------+
//! ```
//!
//! Settings do not show everything that can forbid perf events: a seccomp filter or a security module is in
//! none of them. So everything that matters is tried, and the settings explain the result.

use super::checks;
use super::facts::Facts;
use super::tries::Tries;

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

/// Result of [`diagnose`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// Checks, the most important first.
    pub(crate) checks: Vec<Check>,
    /// `record -g` of one's own command would work.
    pub(crate) can_record: bool,
}

/// Reads all facts, makes all tries, and judges them.
pub(crate) fn diagnose() -> Diagnosis {
    let (facts, tries) = (Facts::read(), Tries::make());
    judge(&facts, &tries)
}

/// Draws conclusions from facts and tries.
pub(crate) fn judge(facts: &Facts, tries: &Tries) -> Diagnosis {
    Diagnosis {
        checks: checks::all(facts, tries),
        can_record: tries.own_user.is_ok() && tries.stacks.is_ok() && tries.ring.is_ok(),
    }
}
