//! [`CallerHistory`]: what was observed at one cut point.

use super::cross_thread::Fingerprint;
use super::rule::MIN_INTERVAL;
use crate::{FoundBy, Frame, Root};

/// Maximum number of checks that are kept of a cut point; of a row of the same result only the first
/// and the last are.
const MAX_CHECKS: usize = 64;

/// The callers at a cut point, and when they were found there or not.
#[derive(Debug, Default)]
pub(super) struct CallerHistory {
    /// Callers that were observed, innermost first; empty until there is an observation.
    pub(super) callers: Vec<Frame>,
    pub(super) root: Option<Root>,
    /// Fingerprint of cut point and callers, by which other threads' are recognised.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Number of independent observations: moments between which the thread ran.
    pub(super) observations: u32,
    /// Time of the last of these.
    last_counted: u64,
    /// Times at which the stack was checked, ascending, and whether the callers stood there.
    checks: Vec<(u64, bool)>,
    /// Several callers were observed, so that none can be believed.
    pub(super) ambiguous: bool,
    /// Number of the observations that the fingerprint's model has counted.
    pub(super) reported: u32,
    /// Time of the last stack that was cut here.
    pub(super) last_cut: u64,
}

impl CallerHistory {
    /// Records that these callers were observed at `time`. `last_ran` is the last moment at which the
    /// thread is known to have run.
    pub(super) fn observe(&mut self, callers: &[Frame], root: Root, time: u64, last_ran: u64) {
        if self.callers.is_empty() {
            let from_elsewhere = |frame: &Frame| Frame {
                found_by: FoundBy::OtherSample,
                ..*frame
            };
            self.callers.extend(callers.iter().map(from_elsewhere));
        } else if !are_same(&self.callers, callers) {
            self.ambiguous = true;
            return;
        }
        self.root = Some(root);
        self.recheck(time, true, last_ran);
    }

    /// Records whether the known callers stood there at `time`. `last_ran` is the last moment at which
    /// the thread is known to have run.
    pub(super) fn recheck(&mut self, time: u64, stood: bool, last_ran: u64) {
        let is_independent =
            last_ran > self.last_counted && time.abs_diff(self.last_counted) >= MIN_INTERVAL;
        if stood && (self.observations == 0 || is_independent) {
            self.observations = self.observations.saturating_add(1);
            self.last_counted = time;
        }
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let same = |at: Option<usize>| {
            let neighbour = at.and_then(|at| self.checks.get(at));
            neighbour.is_some_and(|(_, result)| *result == stood)
        };
        let before = same(at.checked_sub(1));
        if before && same(Some(at)) {
            return;
        }
        // The end of a row moves on.
        if before && at == self.checks.len() && same(at.checked_sub(2)) {
            self.checks[at - 1].0 = time;
            return;
        }
        self.checks.insert(at, (time, stood));
        if self.checks.len() > MAX_CHECKS {
            self.checks.remove(0);
        }
    }

    /// Returns true if another look at `now` would add evidence.
    pub(super) fn wants_recheck(&self, now: u64) -> bool {
        let last = self.checks.last().map_or(0, |(checked, _)| *checked);
        !self.callers.is_empty() && !self.ambiguous && now.saturating_sub(last) >= MIN_INTERVAL
    }

    /// Returns the time in ns from the last check before `time`, and to the first one after it; `None` on
    /// a side where there is none, or where the callers did not stand there.
    pub(super) fn evidence_around(&self, time: u64) -> (Option<u64>, Option<u64>) {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let stood = |at: Option<usize>| {
            let (checked, stood) = self.checks.get(at?)?;
            stood.then(|| checked.abs_diff(time))
        };
        (stood(at.checked_sub(1)), stood(Some(at)))
    }
}

/// Returns true if these are the same activations.
fn are_same(one: &[Frame], other: &[Frame]) -> bool {
    let activation = |frame: &Frame| (frame.sp, frame.address);
    one.len() == other.len() && one.iter().map(activation).eq(other.iter().map(activation))
}
