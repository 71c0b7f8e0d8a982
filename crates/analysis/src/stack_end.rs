//! Stack ends: root or truncation.

use rprof_unwind::{TruncationReason, UnwindOutcome};

/// End of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum StackEnd {
    /// Not unwound by rprof: judged by the names of its frames.
    #[default]
    Unknown,
    /// Root reached.
    Root,
    /// Truncated: the copied stack bytes ended.
    Cut,
    /// Truncated: an image has no unwind information.
    NoUnwindInfo,
    /// Truncated: the callers are on another stack, which was not copied.
    OtherStack,
    /// Truncated for another reason.
    Other,
}

impl From<UnwindOutcome> for StackEnd {
    fn from(outcome: UnwindOutcome) -> StackEnd {
        match outcome {
            UnwindOutcome::Complete(_) => StackEnd::Root,
            UnwindOutcome::Truncated(reason) => match reason {
                TruncationReason::StackEnded { .. } | TruncationReason::TooDeep => StackEnd::Cut,
                TruncationReason::NoUnwindInfo { .. } => StackEnd::NoUnwindInfo,
                TruncationReason::OtherStack { .. } => StackEnd::OtherStack,
                _ => StackEnd::Other,
            },
        }
    }
}

/// Returns true if a recording's private notes say that its recorder unwound the stacks, and
/// marked those that end early.
pub(crate) fn marks_truncation(notes: &[(String, String)]) -> bool {
    (notes.iter()).any(|(key, _)| key == "stacks.by" || key == "stacks.total")
}
