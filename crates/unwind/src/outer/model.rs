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
    /// Threads in which they were seen often enough to be believed there.
    believed_in: [Option<u64>; 2],
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
            believed_in: [None; 2],
            doubtful: false,
        });
        model.doubtful |= model.callers != likeness.callers;
    }

    /// Something more is known of a place with these callers in this thread.
    pub(super) fn count(&mut self, thread: u64, known: &Known) {
        let model = known.likeness.and_then(|likeness| {
            let model = self.by_place.get_mut(&likeness.place)?;
            (model.callers == likeness.callers).then_some(model)
        });
        let Some(model) = model else {
            return;
        };
        model.doubtful |= known.doubtful;
        if known.reads >= READS && !model.believed_in.contains(&Some(thread)) {
            model.believed_in = [Some(thread), model.believed_in[0]];
        }
    }

    /// Whether these callers are believed in another thread than this one.
    pub(super) fn has_others(&self, thread: u64, likeness: Likeness) -> bool {
        let model = self.by_place.get(&likeness.place);
        let model = model.filter(|model| !model.doubtful && model.callers == likeness.callers);
        let mut believed_in = model.into_iter().flat_map(|model| model.believed_in);
        believed_in.any(|believed| believed.is_some_and(|other| other != thread))
    }
}
