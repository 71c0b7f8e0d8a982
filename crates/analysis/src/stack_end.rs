//! Whether a stack reached its root.

use rprof_unwind::{TruncationReason, UnwindOutcome};

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

impl From<UnwindOutcome> for StackEnd {
    fn from(outcome: UnwindOutcome) -> StackEnd {
        match outcome {
            UnwindOutcome::Complete(_) => StackEnd::Root,
            UnwindOutcome::Truncated(reason) => match reason {
                TruncationReason::StackEnded { .. } | TruncationReason::TooDeep => StackEnd::Cut,
                TruncationReason::NoUnwindInfo { .. } => StackEnd::NoUnwindInfo,
                _ => StackEnd::Other,
            },
        }
    }
}
