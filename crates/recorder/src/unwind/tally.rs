//! Outcomes of unwinding, counted.

use std::collections::BTreeMap;

use rprof_processes::Image;
use rprof_unwind::{TruncationReason, UnwindOutcome};

/// Why a stack is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StackCause {
    /// The stack bytes ended before the root.
    StackEnded,
    /// An image, or code made at run time, has no unwind information, and no frame pointer.
    NoUnwindInfo,
    /// Unwind information that cannot be used.
    BadUnwindInfo,
    /// A register or memory that the unwind information needs is not known.
    BadMemory,
    /// A return address led to where there is no code.
    NotMapped,
    /// More frames than a record can hold.
    TooDeep,
    /// A 32-bit process.
    Compat,
}

impl StackCause {
    /// A stable `snake_case` word, for the file.
    pub fn key(self) -> &'static str {
        match self {
            StackCause::StackEnded => "stack_ended",
            StackCause::NoUnwindInfo => "no_unwind_info",
            StackCause::BadUnwindInfo => "bad_unwind_info",
            StackCause::BadMemory => "bad_memory",
            StackCause::NotMapped => "not_mapped",
            StackCause::TooDeep => "too_deep",
            StackCause::Compat => "32_bit",
        }
    }
}

impl From<TruncationReason> for StackCause {
    fn from(cause: TruncationReason) -> StackCause {
        match cause {
            TruncationReason::StackEnded { .. } => StackCause::StackEnded,
            TruncationReason::NoUnwindInfo { .. } => StackCause::NoUnwindInfo,
            TruncationReason::BadMemory { .. } | TruncationReason::MissingRegister { .. } => {
                StackCause::BadMemory
            }
            TruncationReason::NotMapped { .. } => StackCause::NotMapped,
            TruncationReason::TooDeep => StackCause::TooDeep,
            _ => StackCause::BadUnwindInfo,
        }
    }
}

/// Counts of stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTally {
    /// Samples with a user side, unwound.
    pub total: u64,
    /// Samples whose stacks reach their root, joined ones among them.
    pub complete: u64,
    /// Samples whose outer frames were known from other moments of their thread.
    pub joined: u64,
    /// Samples whose stacks do not reach their root, by cause and by the name of the outermost frame's
    /// image.
    pub truncated: BTreeMap<(StackCause, String), u64>,
    /// Samples with no user side: kernel threads.
    pub kernel_only: u64,
}

impl StackTally {
    /// Makes the key and value that each file has from the start: its callchains are unwound, and those
    /// that are cut short have [`Misc::TRUNCATED_STACK`](rprof_records::Misc::TRUNCATED_STACK).
    pub(crate) fn announced() -> (String, String) {
        ("stacks.by".to_owned(), "rprof".to_owned())
    }

    /// Makes keys and values for the file's private section: readers find a truncated stack by its bit,
    /// and the causes here.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note = |key: &str, value: u64| (key.to_owned(), value.to_string());
        let mut notes = vec![
            StackTally::announced(),
            note("stacks.total", self.total),
            note("stacks.complete", self.complete),
            note("stacks.joined", self.joined),
        ];
        for ((cause, image), count) in &self.truncated {
            let key = format!("stacks.truncated.{}", cause.key());
            notes.push((key, format!("{count} {image}")));
        }
        notes
    }

    /// Counts a stack by how unwinding ended, in this image.
    pub(super) fn count_outcome(&mut self, outcome: UnwindOutcome, image: Option<&Image>) {
        match outcome {
            UnwindOutcome::Complete(_) => self.count(Some(false), None, image),
            UnwindOutcome::Truncated(reason) => self.count(None, Some(reason.into()), image),
        }
    }

    /// Counts a stack whose callers were known from other moments of its thread.
    pub(super) fn count_completed(&mut self) {
        self.count(Some(true), None, None);
    }

    /// `complete` says whether it was joined.
    pub(super) fn count(
        &mut self,
        complete: Option<bool>,
        cause: Option<StackCause>,
        image: Option<&Image>,
    ) {
        self.total += 1;
        if let Some(joined) = complete {
            self.complete += 1;
            self.joined += u64::from(joined);
        }
        if let Some(cause) = cause {
            let name = image.map_or("[unknown]".into(), |i| String::from_utf8_lossy(&i.path));
            *self.truncated.entry((cause, name.into())).or_default() += 1;
        }
    }
}
