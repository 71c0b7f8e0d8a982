//! [`CallerHistory`]: what was observed at one cut point.

use super::cross_thread::Fingerprint;
use super::rule::MIN_INTERVAL;
use crate::{FoundBy, Frame, Root};

/// Maximum number of checks that are kept of a cut point; of a row of the same result only the first
/// and the last are.
const MAX_CHECKS: usize = 64;

/// Maximum number of looks that wait for the thread's next sample: the first of a row, and the last ones.
const MAX_UNPROVEN: usize = 3;

/// A look into the memory that found the callers. It is evidence once the thread's next sample shows that the cut point was
/// still of its stack: memory keeps what was popped, and what a large array lies over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// When the read of memory began.
    pub(super) begun: u64,
    /// When it had ended.
    pub(super) time: u64,
    /// The last moment before it at which the thread is known to have run.
    pub(super) last_ran: u64,
}

/// The callers at a cut point, and when they were found there or not.
#[derive(Debug)]
pub(super) struct CallerHistory {
    /// Callers that were observed, innermost first; empty until there is an observation.
    pub(super) callers: Vec<Frame>,
    pub(super) root: Option<Root>,
    /// Fingerprint of cut point and callers, by which other threads' are recognised.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Number of independent observations that were proven: moments between which the thread ran.
    pub(super) observations: u32,
    /// Time of the last of these.
    last_counted: u64,
    /// Times at which the stack was checked, ascending, and whether the callers stood there.
    checks: Vec<(u64, bool)>,
    /// Looks since the thread's last sample, ascending.
    unproven: Vec<Look>,
    /// True unless the last sample whose copy tells it showed that the cut point is not on the stack.
    is_live: bool,
    /// Several callers were observed, so that none can be believed.
    pub(super) ambiguous: bool,
    /// Number of the observations that the fingerprint's model has counted, and whether it was told of an ambiguity.
    pub(super) reported: (u32, bool),
    /// Time of the last stack that was cut here.
    pub(super) last_cut: u64,
}

impl CallerHistory {
    /// Creates the history of a point at which a sample was just cut.
    pub(super) fn new(time: u64, ambiguous: bool) -> CallerHistory {
        CallerHistory {
            callers: Vec::new(),
            root: None,
            fingerprint: None,
            observations: 0,
            last_counted: 0,
            checks: Vec::new(),
            unproven: Vec::new(),
            is_live: true,
            ambiguous,
            reported: (0, false),
            last_cut: time,
        }
    }

    /// Records that these callers were observed: by a look into memory, or in a copy. Other callers than those that are
    /// known count at once.
    pub(super) fn observe(&mut self, callers: &[Frame], root: Root, look: Look, is_copy: bool) {
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
        match is_copy {
            true => {
                self.sampled(look.time, true);
                self.count(look);
            }
            false => self.looked(look, true),
        }
    }

    /// Records whether a look into memory found the known callers.
    pub(super) fn looked(&mut self, look: Look, stood: bool) {
        if !stood {
            return self.check(look.time, false);
        }
        if self.unproven.len() == MAX_UNPROVEN {
            self.unproven.pop();
        }
        let at = (self.unproven).partition_point(|other| other.time <= look.time);
        self.unproven.insert(at, look);
    }

    /// Records whether a sample of the thread, taken at `time`, has the cut point on its stack. Proves or disproves the
    /// looks from the sample before to this one.
    pub(super) fn sampled(&mut self, time: u64, is_live: bool) {
        let stays = self.is_live && is_live;
        for look in std::mem::take(&mut self.unproven) {
            match look.begun <= time {
                true if !stays => {}
                true if look.time <= time => self.count(look),
                _ => self.unproven.push(look),
            }
        }
        if !is_live {
            self.check(time, false);
        }
        self.is_live = is_live;
    }

    /// Returns true if a look is of another moment than the last that was counted: the thread ran between them.
    fn is_independent(look: Look, last_counted: u64) -> bool {
        look.last_ran > last_counted && look.time.abs_diff(last_counted) >= MIN_INTERVAL
    }

    /// Counts callers that were found.
    fn count(&mut self, look: Look) {
        if self.observations == 0 || Self::is_independent(look, self.last_counted) {
            self.observations = self.observations.saturating_add(1);
            self.last_counted = look.time;
        }
        self.check(look.time, true);
    }

    /// Keeps the result of a check.
    fn check(&mut self, time: u64, stood: bool) {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let same = |at: Option<usize>| {
            let neighbour = at.and_then(|at| self.checks.get(at));
            neighbour.is_some_and(|(_, result)| *result == stood)
        };
        let before = same(at.checked_sub(1));
        // A look that is proven late is lost among those that found other callers: the nearest of these may not be kept.
        if before && same(Some(at)) || stood && self.is_among_misses(time) {
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

    /// Returns true if the checks before and after a time found other callers. Between them there may have been more.
    fn is_among_misses(&self, time: u64) -> bool {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let missed = |at: Option<usize>| {
            at.and_then(|at| self.checks.get(at))
                .is_some_and(|(_, stood)| !stood)
        };
        missed(at.checked_sub(1)) && missed(Some(at))
    }

    /// Returns true if another look at `now` would add evidence. While the thread is elsewhere it would not: it could
    /// not be proven.
    pub(super) fn wants_recheck(&self, now: u64) -> bool {
        let checked = self.checks.last().map_or(0, |(checked, _)| *checked);
        let looked = self.unproven.last().map_or(0, |look| look.time);
        let since = now.saturating_sub(checked.max(looked));
        self.is_live && !self.callers.is_empty() && !self.ambiguous && since >= MIN_INTERVAL
    }

    /// Returns the evidence for the callers of a stack that was cut at `time`, of what was observed up to `now`.
    pub(super) fn evidence(&self, time: u64, now: u64) -> Evidence {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let (before, behind) = self.checks.split_at(at);
        let mut before = before.last().copied();
        let mut after = behind.first().copied();
        let mut observations = self.observations;
        let mut last_counted = self.last_counted;
        // The thread has not been sampled since: it waits, or has ended.
        let unproven =
            (self.unproven.iter()).filter(|look| self.is_live && !self.is_among_misses(look.time));
        for look in unproven.take_while(|look| look.time <= now) {
            if observations == 0 || Self::is_independent(*look, last_counted) {
                observations = observations.saturating_add(1);
                last_counted = look.time;
            }
            let found = Some((look.time, true));
            match look.time <= time {
                true if before.is_none_or(|(checked, _)| checked <= look.time) => before = found,
                false if after.is_none_or(|(checked, _)| checked > look.time) => after = found,
                _ => {}
            }
        }
        let age = |(checked, stood): (u64, bool)| stood.then(|| checked.abs_diff(time));
        Evidence {
            observations,
            before: before.and_then(age),
            after: after.and_then(age),
        }
    }
}

/// Evidence for the callers of one stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// Number of independent observations of the callers, at any time.
    pub(super) observations: u32,
    /// Time in ns from the last check before the stack; `None` if there is none, or if the callers did not stand there.
    pub(super) before: Option<u64>,
    /// Time in ns to the first check behind it; `None` as for `before`.
    pub(super) after: Option<u64>,
}

/// Returns true if these are the same activations.
fn are_same(one: &[Frame], other: &[Frame]) -> bool {
    let activation = |frame: &Frame| (frame.sp, frame.address);
    one.len() == other.len() && one.iter().map(activation).eq(other.iter().map(activation))
}
