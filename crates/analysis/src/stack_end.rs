//! Whether a stack reached its root.

use rprof_unwind::{Cause, End};

/// Where a stack ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum StackEnd {
    /// Nobody unwound it: the names of its frames tell.
    #[default]
    Unknown,
    /// At its root.
    Root,
    /// Before, as the stack bytes did.
    Cut,
    /// Before: an image has no unwind information.
    NoUnwindInfo,
    /// Before, for another reason.
    Other,
}

impl From<End> for StackEnd {
    fn from(end: End) -> StackEnd {
        match end {
            End::Root(_) | End::Joined(_) => StackEnd::Root,
            End::Truncated(Cause::StackEnded { .. } | Cause::TooDeep) => StackEnd::Cut,
            End::Truncated(Cause::NoUnwindInfo { .. }) => StackEnd::NoUnwindInfo,
            End::Truncated(_) => StackEnd::Other,
        }
    }
}
