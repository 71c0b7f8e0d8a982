//! [`SampleClock`]: limits the time for one sample.

use std::cell::Cell;
use std::time::Instant;

use rprof_processes::Pid;

use super::work::TimeBudget;
use crate::backlog::Backlog;
use rprof_image::PatientCalls;

/// Lookups between two clock reads. Nearly all samples need fewer.
const LOOKUPS: u32 = 8;

/// Time limit of the current sample. It reads the clock only after expensive steps began.
#[derive(Debug)]
pub(super) struct SampleClock {
    budget: TimeBudget,
    backlog: Backlog,
    /// Origin of the times in the budget.
    begin: Instant,
    pid: Pid,
    lookups: Cell<u32>,
    /// Start of the first expensive step, and the deadline.
    times: Cell<Option<(Instant, Instant)>>,
    is_over: Cell<bool>,
    /// Owner of the files that the writer waited for.
    user: Cell<Option<u32>>,
    cut_short: u64,
}

impl SampleClock {
    /// Creates a clock, which allows less time while the backlog is long.
    pub(super) fn new(backlog: Backlog) -> SampleClock {
        SampleClock {
            budget: TimeBudget::new(),
            backlog,
            begin: Instant::now(),
            pid: Pid(-1),
            lookups: Cell::new(0),
            times: Cell::new(None),
            is_over: Cell::new(false),
            user: Cell::new(None),
            cut_short: 0,
        }
    }

    pub(super) fn begin_sample(&mut self, pid: Pid) {
        self.pid = pid;
        self.lookups.set(0);
        self.times.set(None);
        self.is_over.set(false);
        self.user.set(None);
    }

    pub(super) fn end_sample(&mut self) {
        if let Some((began, _)) = self.times.take() {
            let spent = began.elapsed().as_nanos() as u64;
            (self.budget).spend(self.pid, self.user.get(), spent, self.now());
        }
        self.cut_short += u64::from(self.is_over.get());
    }

    /// Counts a lookup. Returns false after the deadline.
    pub(super) fn count_lookup(&self) -> bool {
        let lookups = self.lookups.get() + 1;
        self.lookups.set(lookups);
        if lookups.is_multiple_of(LOOKUPS) && Instant::now() >= self.until() {
            self.is_over.set(true);
        }
        !self.is_over.get()
    }

    pub(super) fn until(&self) -> Instant {
        if let Some((_, until)) = self.times.get() {
            return until;
        }
        let now = Instant::now();
        let most = self.budget.of(self.pid, self.now());
        // While samples pile up, use the minimum time.
        let most = match self.backlog.is_long() {
            true => most.min(TimeBudget::of_any()),
            false => most,
        };
        let until = now + most;
        self.times.set(Some((now, until)));
        until
    }

    /// Returns the deadline for files of the process, within the budget of its user.
    pub(super) fn until_there(&self) -> Instant {
        let until = self.until();
        let user = self.user.get().unwrap_or_else(|| {
            let user = PatientCalls::user_of(self.pid.0.cast_unsigned());
            self.user.set(Some(user));
            user
        });
        until.min(Instant::now() + self.budget.of_user(user, self.now()))
    }

    pub(super) fn end(&self) {
        self.is_over.set(true);
    }

    /// Returns true if the sample's time ended before its stack was complete.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(super) fn cut_short(&self) -> u64 {
        self.cut_short
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}
