//! [`CrossThreadModels`]: callers that the stacks of several threads have in common.
//!
//! A program started repeatedly (a compiler, once for each file) has the same callers at the same
//! distance from the root in each run, though at other addresses.

use std::hash::{Hash, Hasher};

use super::observation::CutPoint;
use super::rule::MIN_OBSERVATIONS;
use crate::StackFrame;
use rustc_hash::{FxHashMap, FxHasher};

/// Maximum number of models. Beyond it all are dropped.
const MAX_MODELS: usize = 1 << 14;

/// Position-independent hashes of a cut point and of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    cut: u64,
    callers: u64,
}

impl Fingerprint {
    /// `image_offset` maps an address to an image and a file offset. `None` if it fails for any
    /// address.
    pub(super) fn new(
        cut: CutPoint,
        callers: &[StackFrame],
        image_offset: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> Option<Fingerprint> {
        let top = callers.last()?.sp;
        let depth = |address: u64| top.wrapping_sub(address);
        let at = (image_offset(cut.function)?, depth(cut.slot));
        let mut all = FxHasher::default();
        for frame in callers {
            (image_offset(frame.address)?, depth(frame.sp)).hash(&mut all);
        }
        let mut one = FxHasher::default();
        at.hash(&mut one);
        Some(Fingerprint {
            cut: one.finish(),
            callers: all.finish(),
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct CrossThreadModels {
    by_cut: FxHashMap<u64, Model>,
}

#[derive(Debug)]
struct Model {
    callers: u64,
    /// The last two threads with an observation.
    threads: [Option<u64>; 2],
    observations: u32,
    /// True if other callers were observed at this cut point.
    ambiguous: bool,
}

impl CrossThreadModels {
    pub(super) fn register(&mut self, fingerprint: Fingerprint) {
        if self.by_cut.len() >= MAX_MODELS {
            self.by_cut.clear();
        }
        let model = self.by_cut.entry(fingerprint.cut).or_insert(Model {
            callers: fingerprint.callers,
            threads: [None; 2],
            observations: 0,
            ambiguous: false,
        });
        model.ambiguous |= model.callers != fingerprint.callers;
    }

    /// Counts `new` observations of a thread. Returns false if no model has these callers.
    pub(super) fn count(
        &mut self,
        thread: u64,
        fingerprint: Fingerprint,
        ambiguous: bool,
        new: u32,
    ) -> bool {
        let model = self.by_cut.get_mut(&fingerprint.cut);
        let Some(model) = model.filter(|model| model.callers == fingerprint.callers) else {
            return false;
        };
        model.ambiguous |= ambiguous;
        if new > 0 {
            model.observations = model.observations.saturating_add(new);
            if model.threads[0] != Some(thread) {
                model.threads = [Some(thread), model.threads[0]];
            }
        }
        true
    }

    /// Returns true if only these callers were observed, often enough and in at least two threads.
    pub(super) fn believes(&self, fingerprint: Fingerprint) -> bool {
        let model = self.by_cut.get(&fingerprint.cut);
        model.is_some_and(|model| {
            let is_of_several = model.threads.iter().all(Option::is_some);
            let is_clear = !model.ambiguous && model.callers == fingerprint.callers;
            is_clear && is_of_several && model.observations >= MIN_OBSERVATIONS
        })
    }
}
