//! [`CallerHistory`]: observations at one cut point.

use super::cross_thread::Fingerprint;
use super::rule::MIN_INTERVAL;
use crate::{FoundBy, Root, StackFrame};

/// Maximum number of stored checks. Of consecutive equal results only the first and the last are
/// stored.
const MAX_CHECKS: usize = 64;

/// Maximum number of looks that wait for the thread's next sample. A further one replaces the last.
const MAX_UNPROVEN: usize = 3;

/// A read of memory that found the callers. The thread's next sample must prove that the cut point
/// was still on its stack: memory keeps popped frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) begun: u64,
    pub(super) time: u64,
    pub(super) last_ran: u64,
}

#[derive(Debug)]
pub(super) struct CallerHistory {
    /// Observed callers, innermost first.
    pub(super) callers: Vec<StackFrame>,
    pub(super) root: Option<Root>,
    /// Finds equal callers in other threads.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Number of independent, proven observations.
    pub(super) observations: u32,
    last_counted: u64,
    /// Check times, ascending, and whether the callers were there.
    checks: Vec<(u64, bool)>,
    /// Looks since the thread's last sample, ascending.
    unproven: Vec<Look>,
    /// Looks that found other callers after the last sample with the cut point. They may have read
    /// another activation's frames, after the cut point had left the stack.
    contradictions: Vec<Look>,
    /// False if the last conclusive sample showed another stack.
    is_live: bool,
    /// True if different callers were observed, and the cut point came back.
    pub(super) ambiguous: bool,
    /// Observations and ambiguity reported to the fingerprint's model.
    pub(super) reported: (u32, bool),
    pub(super) last_cut: u64,
}

impl CallerHistory {
    pub(super) fn new(time: u64, ambiguous: bool) -> CallerHistory {
        CallerHistory {
            callers: Vec::new(),
            root: None,
            fingerprint: None,
            observations: 0,
            last_counted: 0,
            checks: Vec::new(),
            unproven: Vec::new(),
            contradictions: Vec::new(),
            is_live: true,
            ambiguous,
            reported: (0, false),
            last_cut: time,
        }
    }

    /// Records callers observed in memory or in a copy.
    pub(super) fn observe(
        &mut self,
        callers: &[StackFrame],
        root: Root,
        look: Look,
        is_copy: bool,
    ) {
        if self.callers.is_empty() {
            let from_elsewhere = |frame: &StackFrame| StackFrame {
                found_by: FoundBy::OtherSample,
                ..*frame
            };
            self.callers.extend(callers.iter().map(from_elsewhere));
        } else if !are_same(&self.callers, callers) {
            // In a copy, the cut point and its callers are of one moment.
            match is_copy {
                true => self.ambiguous = true,
                false => self.contradict(look),
            }
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

    fn contradict(&mut self, look: Look) {
        if self.contradictions.len() == MAX_UNPROVEN {
            self.contradictions.pop();
        }
        self.contradictions.push(look);
    }

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

    /// Records whether a sample at `time` has the cut point on its stack. This proves or disproves
    /// the looks since the preceding sample.
    pub(super) fn sampled(&mut self, time: u64, is_live: bool) {
        let stays = self.is_live && is_live;
        self.ambiguous |= is_live && self.contradictions.iter().any(|look| look.begun <= time);
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

    fn is_independent(look: Look, last_counted: u64) -> bool {
        look.last_ran > last_counted && look.time.abs_diff(last_counted) >= MIN_INTERVAL
    }

    fn count(&mut self, look: Look) {
        if self.observations == 0 || Self::is_independent(look, self.last_counted) {
            self.observations = self.observations.saturating_add(1);
            self.last_counted = look.time;
        }
        self.check(look.time, true);
    }

    fn check(&mut self, time: u64, stood: bool) {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let same = |at: Option<usize>| {
            let neighbour = at.and_then(|at| self.checks.get(at));
            neighbour.is_some_and(|(_, result)| *result == stood)
        };
        let before = same(at.checked_sub(1));
        // A late positive result between negative checks is dropped: a nearer negative one may be
        // missing.
        if before && same(Some(at)) || stood && self.is_among_misses(time) {
            return;
        }
        if before && at == self.checks.len() && same(at.checked_sub(2)) {
            self.checks[at - 1].0 = time;
            return;
        }
        self.checks.insert(at, (time, stood));
        if self.checks.len() > MAX_CHECKS {
            self.checks.remove(0);
        }
    }

    fn is_among_misses(&self, time: u64) -> bool {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let missed = |at: Option<usize>| {
            at.and_then(|at| self.checks.get(at))
                .is_some_and(|(_, stood)| !stood)
        };
        missed(at.checked_sub(1)) && missed(Some(at))
    }

    /// Returns true if observations disagree. A look that found other callers is only late if the
    /// cut point was gone soon after it, and has not come back.
    pub(super) fn is_contradicted(&self) -> bool {
        let is_late = |look: &Look| {
            let behind = (self.checks.iter()).skip_while(|(checked, _)| *checked < look.begun);
            behind.last().is_some_and(|(_, stood)| !stood)
        };
        self.ambiguous || !self.contradictions.iter().all(is_late)
    }

    /// Returns true if a look at `now` would add evidence. While the cut point is off the stack, no
    /// sample could prove it.
    pub(super) fn wants_recheck(&self, now: u64) -> bool {
        let checked = self.checks.last().map_or(0, |(checked, _)| *checked);
        let looked = self.unproven.last().map_or(0, |look| look.time);
        let since = now.saturating_sub(checked.max(looked));
        self.is_live && !self.callers.is_empty() && !self.ambiguous && since >= MIN_INTERVAL
    }

    /// Returns the evidence, up to `now`, for the callers of a stack cut at `time`.
    pub(super) fn evidence(&self, time: u64, now: u64) -> Evidence {
        let at = self.checks.partition_point(|(checked, _)| *checked <= time);
        let (before, behind) = self.checks.split_at(at);
        let mut before = before.last().copied();
        let mut after = behind.first().copied();
        let mut observations = self.observations;
        let mut last_counted = self.last_counted;
        // The thread has no later sample: it is blocked or has ended.
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
        let is_nearest = |look: &Look| match look.time <= time {
            true => before.is_none_or(|(checked, _)| look.time >= checked),
            false => after.is_none_or(|(checked, _)| look.begun <= checked),
        };
        Evidence {
            observations,
            is_disputed: self.contradictions.iter().any(is_nearest),
            before: before.and_then(age),
            after: after.and_then(age),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    pub(super) observations: u32,
    /// True if the nearest check on one side of the stack found other callers.
    pub(super) is_disputed: bool,
    /// Time in ns since the last check before the stack; `None` without one, or if it was negative.
    pub(super) before: Option<u64>,
    /// Time in ns to the first check after it; `None` as for `before`.
    pub(super) after: Option<u64>,
}

fn are_same(one: &[StackFrame], other: &[StackFrame]) -> bool {
    let activation = |frame: &StackFrame| (frame.sp, frame.address);
    one.len() == other.len() && one.iter().map(activation).eq(other.iter().map(activation))
}
