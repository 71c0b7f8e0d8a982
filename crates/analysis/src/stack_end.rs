//! End of a stack: its root, or the cause of a truncation.

use rprof_unwind::{TruncationReason, UnwindOutcome};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum StackEnd {
    /// Unwound by another recorder: frame names decide.
    #[default]
    Unknown,
    Root,
    /// Truncated at the end of the copied stack bytes.
    Cut,
    NoUnwindInfo,
    /// Truncated: the callers are on another, uncopied stack.
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

/// Returns true if the private notes say that the recorder marked truncated stacks.
pub(crate) fn marks_truncation(notes: &[(String, String)]) -> bool {
    (notes.iter()).any(|(key, _)| key == "stacks.by" || key == "stacks.total")
}
