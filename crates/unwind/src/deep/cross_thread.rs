//! [`CrossThreadModels`]: callers that the stacks of several threads have in common.
//!
//! A program started repeatedly (a compiler, once for each file) has the same callers at the same
//! distance from the root of the stack in each run, though at other addresses.

use std::hash::{Hash, Hasher};

use super::observation::CutPoint;
use super::rule::MIN_OBSERVATIONS;
use crate::Frame;
use rustc_hash::{FxHashMap, FxHasher};

/// Maximum number of models. Beyond it all are dropped.
const MAX_MODELS: usize = 1 << 14;

/// Position-independent hashes of a cut point and of its callers. They are equal for any load
/// addresses of images and stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    cut: u64,
    callers: u64,
}

impl Fingerprint {
    /// Hashes a cut point and its callers. `image_offset` maps an address to an image and an offset
    /// in its file. `None` if it fails for any of them.
    pub(super) fn new(
        cut: CutPoint,
        callers: &[Frame],
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

/// Callers at the cut points of all threads, by fingerprint.
#[derive(Debug, Default)]
pub(super) struct CrossThreadModels {
    by_cut: FxHashMap<u64, Model>,
}

#[derive(Debug)]
struct Model {
    callers: u64,
    /// The last two threads with an observation.
    threads: [Option<u64>; 2],
    /// Number of observations in all threads.
    observations: u32,
    /// True if other callers were observed at this cut point.
    ambiguous: bool,
}

impl CrossThreadModels {
    /// Adds a model for callers that were observed for the first time in a thread.
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

    /// Counts `new` observations of a thread, and whether its cut point is ambiguous. Returns false
    /// if no model has these callers.
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

    /// Returns true if these callers were observed often enough, in at least two threads, and no
    /// others.
    pub(super) fn believes(&self, fingerprint: Fingerprint) -> bool {
        let model = self.by_cut.get(&fingerprint.cut);
        model.is_some_and(|model| {
            let is_of_several = model.threads.iter().all(Option::is_some);
            let is_clear = !model.ambiguous && model.callers == fingerprint.callers;
            is_clear && is_of_several && model.observations >= MIN_OBSERVATIONS
        })
    }
}
