//! Counts the results of unwinding.

use std::collections::BTreeMap;

use rprof_interpreters::Found;
use rprof_processes::Image;
use rprof_unwind::{TruncationReason, UnwindOutcome};

/// Maximum number of pairs of cause and image name; further stacks count under [`OTHERS`].
const MAX_NAMES: usize = 1024;

const OTHERS: &str = "[others]";

/// Reason why a stack is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StackCause {
    /// The stack bytes ended before the root.
    StackEnded,
    /// An image or JIT code has no unwind information and no frame pointer.
    NoUnwindInfo,
    /// The unwind information is invalid or unsupported.
    BadUnwindInfo,
    /// The unwind information needs an unknown register or unreadable memory.
    BadMemory,
    /// The callers are on another stack, which the sample does not contain.
    OtherStack,
    /// A return address is not in mapped code.
    NotMapped,
    /// More frames than fit into a record.
    TooDeep,
    /// A 32-bit process on ARM.
    Compat,
    /// An image was not opened because of too many open files.
    NotOpened,
    /// The file of an image could not be opened: it is gone, or elsewhere, or may not be read.
    FileNotOpened,
    /// No mapping of the process is known.
    NoMappings,
    /// Unwinding or opening an image timed out.
    TooSlow,
}

impl StackCause {
    /// Returns a stable `snake_case` key for the file.
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
            StackCause::FileNotOpened => "file_not_opened",
            StackCause::NoMappings => "no_mappings",
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
    /// Unwound samples with a user side.
    pub total: u64,
    /// Samples whose stacks reach their root, including joined ones.
    pub complete: u64,
    /// Samples whose outer frames were observed at another time of their thread.
    pub joined: u64,
    /// Truncated samples, by cause and by image name of the outermost frame.
    pub truncated: BTreeMap<(StackCause, String), u64>,
    /// Samples without a user side: of kernel threads, and during exec or exit.
    pub kernel_only: u64,
    /// Samples in `truncated` without an image name, because there are too many names.
    pub without_name: u64,
    /// Stacks with functions of an interpreted language.
    pub interpreted: InterpretedTally,
}

/// Counts of stacks with functions of an interpreted language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterpretedTally {
    /// Stacks with such functions, or with a gap.
    pub total: u64,
    /// Stacks with a gap: no evidence proves some callers.
    pub unproven: u64,
    /// Stacks with functions whose names could not be read.
    pub unnamed: u64,
    /// Stacks without any such function, because the process memory could not be read.
    pub unread: u64,
}

impl InterpretedTally {
    pub(super) fn count(&mut self, found: &Found) {
        self.total += u64::from(found.is_interpreted());
        self.unproven += u64::from(found.gaps > 0);
        self.unnamed += u64::from(found.unnamed > 0);
        self.unread += u64::from(found.is_unread && !found.is_interpreted());
    }

    fn notes(self) -> impl Iterator<Item = (String, String)> {
        let counts = [
            ("stacks.interpreted", self.total),
            ("stacks.interpreted.unproven", self.unproven),
            ("stacks.interpreted.unnamed", self.unnamed),
            ("stacks.interpreted.unread", self.unread),
        ];
        let is_used = self != Self::default();
        let notes = counts.into_iter().filter(move |_| is_used);
        notes.map(|(key, count)| (key.to_owned(), count.to_string()))
    }
}

impl StackTally {
    /// Returns the note of each file: rprof unwound the callchains, and truncated ones have
    /// [`Misc::TRUNCATED_STACK`](rprof_records::Misc::TRUNCATED_STACK).
    pub(crate) fn announced() -> (String, String) {
        ("stacks.by".to_owned(), "rprof".to_owned())
    }

    /// Returns notes for the file, with the causes of truncation. A bit in each sample marks
    /// truncated stacks.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note = |key: &str, value: u64| (key.to_owned(), value.to_string());
        let mut notes = vec![
            StackTally::announced(),
            note("stacks.total", self.total),
            note("stacks.complete", self.complete),
            note("stacks.joined", self.joined),
        ];
        notes.extend(self.interpreted.notes());
        for ((cause, image), count) in &self.truncated {
            let key = format!("stacks.truncated.{}", cause.key());
            notes.push((key, format!("{count} {image}")));
        }
        notes
    }

    pub(super) fn count_outcome(&mut self, outcome: UnwindOutcome, image: Option<&Image>) {
        match outcome {
            UnwindOutcome::Complete(_) => self.count(Some(false), None, image),
            UnwindOutcome::Truncated(reason) => self.count(None, Some(reason.into()), image),
        }
    }

    pub(super) fn count_completed(&mut self) {
        self.count(Some(true), None, None);
    }

    /// Counts a stack. `complete` is `Some(true)` for a joined stack.
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
            if self.truncated.len() >= MAX_NAMES && !self.truncated.contains_key(&key) {
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
        for n in 0..3 * MAX_NAMES {
            let image = Image {
                path: format!("/{n}").into_bytes().into(),
                identity: ImageIdentity::PathOnly,
                kind: ImageKind::File,
                first_mapped: 0,
            };
            tally.count(None, Some(StackCause::NoUnwindInfo), Some(&image));
        }
        let rest = (StackCause::NoUnwindInfo, OTHERS.to_owned());
        assert_eq!(tally.truncated.len(), MAX_NAMES + 1);
        assert_eq!(tally.truncated[&rest], 2 * MAX_NAMES as u64);
        assert_eq!(tally.without_name, 2 * MAX_NAMES as u64);
    }
}
