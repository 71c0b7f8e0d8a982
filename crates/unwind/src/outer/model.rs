//! [`Models`]: what the stacks of different threads have in common.
//!
//! Programs that are started again and again (a compiler, once for each file) have the same callers at the
//! same distance from the beginning of the stack each time, though elsewhere in memory.

use std::hash::{Hash, Hasher};

use super::known::Known;
use super::{Place, READS};
use crate::Frame;
use rustc_hash::{FxHashMap, FxHasher};

/// Most that are kept.
const MOST_MODELS: usize = 1 << 14;

/// What does not depend on where a process has its code and its stack: hashes of the place, and of
/// the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Likeness {
    place: u64,
    callers: u64,
}

impl Likeness {
    /// `in_file` answers which image an address is of, and where in it.
    pub(super) fn of(
        place: Place,
        callers: &[Frame],
        in_file: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> Option<Likeness> {
        let top = callers.last()?.sp;
        let depth = |address: u64| top.wrapping_sub(address);
        let at = (in_file(place.function)?, depth(place.slot));
        let mut all = FxHasher::default();
        for frame in callers {
            (in_file(frame.address)?, depth(frame.sp)).hash(&mut all);
        }
        let mut one = FxHasher::default();
        at.hash(&mut one);
        Some(Likeness {
            place: one.finish(),
            callers: all.finish(),
        })
    }
}

/// The callers at places of all threads.
#[derive(Debug, Default)]
pub(super) struct Models {
    by_place: FxHashMap<u64, Model>,
}

#[derive(Debug)]
struct Model {
    callers: u64,
    /// The last two threads in which they were seen.
    threads: [Option<u64>; 2],
    /// How often they were seen in all threads.
    reads: u32,
    /// Others were seen at such a place.
    doubtful: bool,
}

impl Models {
    /// Callers were found for the first time in some thread.
    pub(super) fn found(&mut self, likeness: Likeness) {
        if self.by_place.len() >= MOST_MODELS {
            self.by_place.clear();
        }
        let model = self.by_place.entry(likeness.place).or_insert(Model {
            callers: likeness.callers,
            threads: [None; 2],
            reads: 0,
            doubtful: false,
        });
        model.doubtful |= model.callers != likeness.callers;
    }

    /// Something more is known of a place with these callers in this thread.
    pub(super) fn count(&mut self, thread: u64, known: &mut Known) {
        let model = known.likeness.and_then(|likeness| {
            let model = self.by_place.get_mut(&likeness.place)?;
            (model.callers == likeness.callers).then_some(model)
        });
        let Some(model) = model else {
            return;
        };
        model.doubtful |= known.doubtful;
        if known.reads > known.told {
            model.reads = model.reads.saturating_add(known.reads - known.told);
            known.told = known.reads;
            if model.threads[0] != Some(thread) {
                model.threads = [Some(thread), model.threads[0]];
            }
        }
    }

    /// Whether these callers were seen often enough, and in two threads at least.
    pub(super) fn believes(&self, likeness: Likeness) -> bool {
        let model = self.by_place.get(&likeness.place);
        model.is_some_and(|model| {
            let is_of_several = model.threads.iter().all(Option::is_some);
            let is_clear = !model.doubtful && model.callers == likeness.callers;
            is_clear && is_of_several && model.reads >= READS
        })
    }
}
