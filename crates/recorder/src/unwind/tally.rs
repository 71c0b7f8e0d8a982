//! Outcomes of unwinding, counted.

use std::collections::BTreeMap;

use rprof_processes::Image;
use rprof_unwind::{TruncationReason, UnwindOutcome};

/// Most names of images in the counts: beyond, stacks are counted under [`OTHERS`].
const MOST_NAMES: usize = 1024;

/// In place of the name of an image.
const OTHERS: &str = "[others]";

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
    /// The callers are on another stack, of which samples have no copy.
    OtherStack,
    /// A return address led to where there is no code.
    NotMapped,
    /// More frames than a record can hold.
    TooDeep,
    /// A 32-bit process.
    Compat,
    /// An image could not be opened, as there were too many open files.
    NotOpened,
    /// Unwinding took too long, or an image was not opened in time.
    TooSlow,
}

impl StackCause {
    /// A stable `snake_case` word, for the file.
    pub fn key(self) -> &'static str {
        match self {
            StackCause::StackEnded => "stack_ended",
            StackCause::NoUnwindInfo => "no_unwind_info",
            StackCause::BadUnwindInfo => "bad_unwind_info",
            StackCause::BadMemory => "bad_memory",
            StackCause::OtherStack => "other_stack",
            StackCause::NotMapped => "not_mapped",
            StackCause::TooDeep => "too_deep",
            StackCause::Compat => "32_bit",
            StackCause::NotOpened => "not_opened",
            StackCause::TooSlow => "too_slow",
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
            TruncationReason::OtherStack { .. } => StackCause::OtherStack,
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
    /// Samples in `truncated` that are counted without the name of their image, as there are too many.
    pub without_name: u64,
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
            let mut key = (cause, name.into_owned());
            if self.truncated.len() >= MOST_NAMES && !self.truncated.contains_key(&key) {
                self.without_name += 1;
                key.1 = OTHERS.to_owned();
            }
            *self.truncated.entry(key).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_processes::{ImageIdentity, ImageKind};

    #[test]
    fn names_of_images_are_bounded_and_counts_are_right() {
        let mut tally = StackTally::default();
        for n in 0..3 * MOST_NAMES {
            let image = Image {
                path: format!("/{n}").into_bytes().into(),
                identity: ImageIdentity::PathOnly,
                kind: ImageKind::File,
            };
            tally.count(None, Some(StackCause::NoUnwindInfo), Some(&image));
        }
        let rest = (StackCause::NoUnwindInfo, OTHERS.to_owned());
        assert_eq!(tally.truncated.len(), MOST_NAMES + 1);
        assert_eq!(tally.truncated[&rest], 2 * MOST_NAMES as u64);
        assert_eq!(tally.without_name, 2 * MOST_NAMES as u64);
    }
}
