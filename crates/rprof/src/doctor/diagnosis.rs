//! May this user profile here, and what stands in the way?
//!
//! ```text
//!   Facts (settings, limits, rights, as files tell) --+
//!                                                     +--> checks: each with a state and a fix
//!   Tries (perf_event_open, really called) -----------+
//! ```
//!
//! What a setting would allow and what the kernel does are different things: a seccomp
//! filter or a security module shows in no setting. So everything that matters is
//! tried, and the settings explain what came of it.

use super::checks;
use super::facts::Facts;
use super::tries::Tries;

/// How much something stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    /// Not at all.
    Ok,
    /// One can record, but not all that there is.
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

/// One thing that can stand in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// A name that stays the same, for programs.
    pub(crate) id: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
    /// Whether it stands in the way.
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it, with as little privilege as will do.
    pub(crate) fix: Option<String>,
}

/// What [`diagnose`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// In the order in which they matter.
    pub(crate) checks: Vec<Check>,
    /// Whether `record -g` of one's own command would work.
    pub(crate) can_record: bool,
}

/// Looks at everything, and tries what can be tried.
pub(crate) fn diagnose() -> Diagnosis {
    let (facts, tries) = (Facts::read(), Tries::make());
    judge(&facts, &tries)
}

/// What facts and tries come to.
pub(crate) fn judge(facts: &Facts, tries: &Tries) -> Diagnosis {
    Diagnosis {
        checks: checks::all(facts, tries),
        can_record: tries.own_user.is_ok() && tries.stacks.is_ok() && tries.ring.is_ok(),
    }
}
