//! [`Known`]: what was seen of the callers at one place.

use super::APART;
use super::model::Likeness;
use crate::{FoundBy, Frame, Root};

/// Most sightings that are kept of a place; those in the middle of a row of the same are not.
const MOST_SEEN: usize = 64;

/// What is known of a place.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The callers that were found there, the innermost first; empty while there are none.
    pub(super) callers: Vec<Frame>,
    pub(super) root: Option<Root>,
    /// What they have in common with those of other threads.
    pub(super) likeness: Option<Likeness>,
    /// Times at which these were found, between which the thread ran, and the last of them.
    pub(super) reads: u32,
    counted: u64,
    /// When somebody looked, in order, and whether these stood there.
    seen: Vec<(u64, bool)>,
    /// Others were found, too: no sighting tells which a sample had.
    pub(super) doubtful: bool,
    /// How many of the reads its model knows of.
    pub(super) told: u32,
    /// When a stack was last cut here.
    pub(super) used: u64,
}

impl Known {
    /// These callers were found at `time`.
    pub(super) fn found(&mut self, callers: &[Frame], root: Root, time: u64, ran: u64) {
        if self.callers.is_empty() {
            let memory = |frame: &Frame| Frame {
                by: FoundBy::Memory,
                ..*frame
            };
            self.callers.extend(callers.iter().map(memory));
        } else if !are_same(&self.callers, callers) {
            self.doubtful = true;
            return;
        }
        self.root = Some(root);
        self.stood(time, true, ran);
    }

    /// Whether the callers that are known stood there at `time`. The thread is known to have run at `ran`.
    pub(super) fn stood(&mut self, time: u64, stood: bool, ran: u64) {
        let is_another = ran > self.counted && time.abs_diff(self.counted) >= APART;
        if stood && (self.reads == 0 || is_another) {
            self.reads = self.reads.saturating_add(1);
            self.counted = time;
        }
        let at = self.seen.partition_point(|(seen, _)| *seen <= time);
        let same = |at: Option<usize>| {
            let neighbour = at.and_then(|at| self.seen.get(at));
            neighbour.is_some_and(|(_, seen)| *seen == stood)
        };
        let before = same(at.checked_sub(1));
        if before && same(Some(at)) {
            return;
        }
        // The end of a row moves on.
        if before && at == self.seen.len() && same(at.checked_sub(2)) {
            self.seen[at - 1].0 = time;
            return;
        }
        self.seen.insert(at, (time, stood));
        if self.seen.len() > MOST_SEEN {
            self.seen.remove(0);
        }
    }

    /// Whether it is worth looking at `now`.
    pub(super) fn wants_look(&self, now: u64) -> bool {
        let last = self.seen.last().map_or(0, |(seen, _)| *seen);
        !self.callers.is_empty() && !self.doubtful && now.saturating_sub(last) >= APART
    }

    /// How long before `time` somebody looked last, and how long after it somebody did next: in ns,
    /// where the callers stood there.
    pub(super) fn around(&self, time: u64) -> (Option<u64>, Option<u64>) {
        let at = self.seen.partition_point(|(seen, _)| *seen <= time);
        let stood = |at: Option<usize>| {
            let (seen, stood) = self.seen.get(at?)?;
            stood.then(|| seen.abs_diff(time))
        };
        (stood(at.checked_sub(1)), stood(Some(at)))
    }
}

/// Whether these are the same activations.
fn are_same(one: &[Frame], other: &[Frame]) -> bool {
    let activation = |frame: &Frame| (frame.sp, frame.address);
    one.len() == other.len() && one.iter().map(activation).eq(other.iter().map(activation))
}
