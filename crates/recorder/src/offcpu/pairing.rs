//! [`Pairing`]: pairs switches out and in to waits.
//!
//! | record | effect |
//! |---|---|
//! | sample of the switch event | stack for the next switch of the same thread on the same CPU |
//! | switch out | the thread waits from now on |
//! | switch in | the wait ends |
//! | other sample of a waiting thread | the wait ends: its switch in was lost or comes next |
//! | FORK | the thread waits for a CPU |
//! | wakeup | the thread waits for a CPU from now on |
//! | EXIT, exec | the thread ended, or runs another program |
//! | loss on a CPU | its thread's state is unknown; waits that may end in it are discarded |
//!
//! All wakeups by threads are recorded. A missing wakeup was made by an interrupt on an idle CPU.
//!
//! A switch is one moment, which begins with the sample of the leaving thread. Recording it may
//! take longer than the thread ran, and must not count as a wait.
//!
//! A thread's first record tells its earlier state. A switch-in means it was off-CPU; a switch-out,
//! an exit or a sample means it was running.

use rprof_records::WaitEnd;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cpus::{Cpus, Departure};
use super::cuts::Cuts;
use super::sleeping::Sleeping;
use super::slices::Window;
use super::thread::{State, Thread};
use super::time::ThreadTime;
use super::wait::{Cause, Moment, Wait};
use super::wakeups::Wakeup;

/// Nanoseconds after a switch-out when kernel samples may still belong to the leaving thread.
const STILL_SWITCHING: u64 = 50_000;

/// Maximum nanoseconds from a sample to a later switch-in of the same thread.
const JUST_COMING: u64 = 1_000_000;

/// Maximum lost share of a wait, as a divisor: 1 in 20. Beyond it the wait is discarded.
const GAPS_IN_WAIT: u64 = 20;

#[derive(Debug, Default)]
struct Watched {
    cpus: FxHashSet<u32>,
    threads: FxHashSet<i32>,
}

#[derive(Debug, Default)]
pub(super) struct Pairing {
    pub(super) threads: FxHashMap<i32, Thread>,
    pub(super) cpus: Cpus,
    /// True for whole CPUs: then a switch-out follows each exit, and threads without records do not
    /// count.
    pub(super) by_cpu: bool,
    pub(super) time: ThreadTime,
    /// Recorded CPUs, if not all. Switches arrive from all CPUs, but only time and waits on these
    /// count.
    watched: Option<Watched>,
    pub(super) window: Option<Window>,
    pub(super) sleeping: Sleeping,
    pub(super) cuts: Cuts,
    pub(super) records_wakeups: bool,
}

impl Pairing {
    pub(super) fn new(by_cpu: bool) -> Pairing {
        Pairing {
            by_cpu,
            ..Pairing::default()
        }
    }

    pub(super) fn watch_cpus(&mut self, cpus: &[u32]) {
        self.watched = Some(Watched {
            cpus: cpus.iter().copied().collect(),
            threads: FxHashSet::default(),
        });
    }

    /// Returns whether a thread's time on its current or last CPU counts.
    fn counts(&self, at: Moment) -> bool {
        let Some(watched) = &self.watched else {
            return true;
        };
        watched.cpus.contains(&self.cpu_of(at))
    }

    /// Returns the current or last CPU of a thread, or else the CPU of `at`.
    fn cpu_of(&self, at: Moment) -> u32 {
        let cpu = self.threads.get(&at.tid).map(|thread| thread.cpu);
        cpu.filter(|cpu| *cpu != u32::MAX).unwrap_or(at.cpu)
    }

    pub(super) fn time(&self) -> &ThreadTime {
        &self.time
    }

    /// Starts the recording at `time`, with the known threads and `others` (process, thread).
    pub(super) fn begin(&mut self, time: u64, others: impl IntoIterator<Item = (i32, i32)>) {
        for (pid, tid) in others {
            self.found(pid, tid, time);
        }
        (self.threads).retain(|_, thread| !matches!(thread.state, State::Ended));
        for thread in self.threads.values_mut() {
            (thread.state, thread.since, thread.was_seen) = (State::Unseen, time, false);
        }
        self.time = ThreadTime {
            threads: self.threads.len() as u64,
            ..ThreadTime::default()
        };
    }

    /// Removes a known thread that is not recorded.
    pub(super) fn leave_out(&mut self, tid: i32) {
        let was_there = self.threads.remove(&tid).is_some();
        self.time.threads = self.time.threads.saturating_sub(u64::from(was_there));
    }

    pub(super) fn found(&mut self, pid: i32, tid: i32, time: u64) {
        self.insert(pid, tid, u32::MAX, time, State::Unseen);
    }

    pub(super) fn leaving(&mut self, at: Moment, record: &[u8]) {
        if !self.is_in_gap() {
            self.cpus.leaving(at, record);
        }
    }

    /// Handles a switch-out; `runnable` if the thread was preempted.
    pub(super) fn switched_out(&mut self, at: Moment, runnable: bool) {
        if self.is_in_gap() {
            return;
        }
        let Departure { began, stack } = self.cpus.left(at);
        let at = self.moved(at, began);
        match self.threads.get(&at.tid).map(|thread| &thread.state) {
            Some(State::Ended) => {
                self.threads.remove(&at.tid);
                return;
            }
            // It was off-CPU already: a switch-in was lost.
            Some(State::Off { .. }) => {
                self.time.lost_switches += 1;
                self.unknown_until(at);
            }
            _ => self.ran_until(at),
        }
        let cause = match runnable {
            true => Cause::Runnable,
            false => Cause::Blocked,
        };
        if let Some(window) = &mut self.window {
            window.count_switch(at.tid);
        }
        let gaps = self.cpus.gaps();
        let state = State::Off {
            cause,
            stack,
            gaps,
            looked_at: 0,
            by_switch: true,
        };
        let wake = self.threads.get(&at.tid).and_then(|thread| thread.wake);
        self.set(at, state);
        // The wakeup came from another CPU while this one was still recording the switch.
        if let Some(thread) = self.threads.get_mut(&at.tid) {
            thread.wake = wake;
            thread.wake = thread.ended_by();
        }
    }

    pub(super) fn switched_in(&mut self, at: Moment) -> Option<Wait> {
        if self.is_in_gap() {
            return None;
        }
        let came = self.cpus.came(at);
        let at = self.moved(at, came);
        let thread = self.threads.get(&at.tid);
        let wait = match thread.map(|thread| (&thread.state, thread.since)) {
            Some((State::On { by_sample: true }, since))
                if at.time.saturating_sub(since) < JUST_COMING =>
            {
                self.ran_until(at);
                None
            }
            Some((State::On { .. }, _)) => {
                self.time.lost_switches += 1;
                self.unknown_until(at);
                None
            }
            _ => self.waited_until(at, self.records_wakeups),
        };
        self.set(at, State::On { by_sample: false });
        wait
    }

    /// Handles a wakeup of a thread, made on `cpu`. Returns false for an unknown thread.
    pub(super) fn woken(&mut self, tid: i32, cpu: u32, wake: Wakeup) -> bool {
        if self.is_in_gap() {
            return false;
        }
        self.cpus.seen(cpu, wake.at);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return false;
        };
        let is_known = thread.ended_by().is_some();
        if !is_known || matches!(thread.state, State::On { .. }) {
            thread.wake = Some(wake);
        }
        true
    }

    pub(super) fn idle_left(&mut self, cpu: u32, time: u64) {
        if !self.is_in_gap() {
            self.cpus.idle_left(cpu, time);
        }
    }

    /// Moves a moment to an earlier time, but not before the current state of the thread.
    fn moved(&self, at: Moment, time: u64) -> Moment {
        let since = self.threads.get(&at.tid).map_or(0, |thread| thread.since);
        Moment {
            time: time.max(since).min(at.time),
            ..at
        }
    }

    /// Handles a sample of another event. Returns the wait that must be over.
    pub(super) fn sampled(&mut self, at: Moment) -> Option<Wait> {
        if self.is_in_gap() {
            return None;
        }
        self.cpus.seen(at.cpu, at.time);
        let wait = match self.threads.get(&at.tid) {
            Some(thread) => match thread.state {
                State::On { .. } | State::Ended => return None,
                State::Off { .. } => {
                    let is_there = thread.cpu == at.cpu;
                    if is_there && at.time.saturating_sub(thread.since) <= STILL_SWITCHING {
                        return None;
                    }
                    self.waited_until(at, false)
                }
                State::Unseen | State::Unknown => {
                    self.ran_until(at);
                    None
                }
            },
            None => {
                self.ran_until(at);
                None
            }
        };
        self.cpus.ran(at);
        self.set(at, State::On { by_sample: true });
        wait
    }

    /// Returns true for a thread without a record since the start of the recording.
    pub(super) fn is_unseen(&self, tid: i32) -> bool {
        let thread = self.threads.get(&tid);
        !self.is_in_gap() && thread.is_some_and(|thread| matches!(thread.state, State::Unseen))
    }

    pub(super) fn has_seen(&self, tid: i32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.was_seen)
    }

    pub(super) fn knows(&self, tid: i32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Sets the stack of a sleeping thread without records, inspected at `time`. A second record of
    /// the same time replaces the first.
    pub(super) fn found_waiting(&mut self, tid: i32, time: u64, record: Vec<u8>) {
        let gaps = self.cpus.gaps();
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        match &mut thread.state {
            // A more complete stack from the same inspection.
            State::Off {
                stack: Some(stack),
                looked_at,
                by_switch: false,
                ..
            } if *looked_at == time => *stack = record,
            State::Unseen => {
                thread.was_seen = true;
                thread.state = State::Off {
                    cause: Cause::Blocked,
                    stack: Some(record),
                    gaps,
                    looked_at: time,
                    by_switch: false,
                };
            }
            _ => {}
        }
    }

    pub(super) fn forked(&mut self, pid: i32, tid: i32, time: u64) {
        let state = match self.is_in_gap() {
            true => State::Unseen,
            false => State::Off {
                cause: Cause::Runnable,
                stack: None,
                gaps: self.cpus.gaps(),
                looked_at: 0,
                by_switch: false,
            },
        };
        self.insert(pid, tid, u32::MAX, time, state);
        self.open_slice(tid, time);
    }

    pub(super) fn ended(&mut self, pid: i32, tid: i32, time: u64) {
        self.cuts.forget(tid);
        if self.is_in_gap() {
            return self.ended_in_gap(tid, time);
        }
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        let cpu = thread.cpu;
        let at = Moment {
            pid,
            tid,
            cpu,
            time,
        };
        match thread.state {
            State::Off { .. } => {
                self.time.lost_switches += 1;
                self.unknown_until(at);
            }
            _ => self.ran_until(at),
        }
        self.close_slice(tid, time);
        match self.by_cpu {
            true => self.set(at, State::Ended),
            false => drop(self.threads.remove(&tid)),
        }
    }

    /// Handles an exec: one thread survives, with the tid of the process.
    pub(super) fn executed(&mut self, pid: i32, tid: i32, time: u64) {
        let others = self.threads.iter();
        let others = others.filter(|(other, thread)| thread.pid == pid && **other != tid);
        let others: Vec<i32> = others.map(|(other, _)| *other).collect();
        let cpu = (self.threads.get(&tid)).map_or(u32::MAX, |thread| thread.cpu);
        if self.is_in_gap() {
            return others
                .into_iter()
                .for_each(|other| self.ended(pid, other, time));
        }
        // The thread in execve(2) runs. The main thread may have waited for its own end.
        let runs = |thread: &Thread| !matches!(thread.state, State::Off { .. } | State::Ended);
        let at = Moment {
            pid,
            tid,
            cpu,
            time,
        };
        match self.threads.get(&tid).map(runs) {
            Some(true) => self.ran_until(at),
            Some(false) => self.unknown_until(at),
            None => {}
        }
        for other in others {
            self.ended(pid, other, time);
            self.threads.remove(&other);
        }
        self.set(at, State::On { by_sample: false });
    }

    /// Handles a loss of records on a CPU, reported at `time`.
    pub(super) fn lost(&mut self, cpu: u32, time: u64) {
        if self.is_in_gap() {
            return;
        }
        // The thread may be on any CPU now.
        let Some((tid, began)) = self.cpus.lost(cpu, time) else {
            return;
        };
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        if matches!(thread.state, State::On { .. }) && thread.cpu == cpu {
            let at = Moment {
                pid: thread.pid,
                tid,
                cpu,
                time: began.max(thread.since),
            };
            self.ran_until(at);
            self.set(at, State::Unknown);
        }
    }

    /// Ends the recording at `time`. Returns the open waits, by thread.
    pub(super) fn finish(&mut self, time: u64) -> Vec<Wait> {
        if self.by_cpu {
            let before = self.threads.len();
            self.threads.retain(|_, thread| thread.was_seen);
            self.time.threads -= (before - self.threads.len()) as u64;
        }
        let mut waits = match self.is_in_gap() {
            true => Vec::new(),
            false => self.close(time, false),
        };
        waits.extend(self.end_window(time));
        if let Some(watched) = &self.watched {
            self.time.threads = watched.threads.len() as u64;
        }
        self.threads.clear();
        waits
    }

    fn insert(&mut self, pid: i32, tid: i32, cpu: u32, time: u64, state: State) {
        if let Some(before) = self.threads.get(&tid)
            && !matches!(before.state, State::Ended)
        {
            let at = Moment {
                pid,
                tid,
                cpu,
                time,
            };
            self.unknown_until(at);
        } else {
            self.time.threads += 1;
        }
        let thread = Thread {
            pid,
            cpu,
            since: time,
            was_seen: !matches!(state, State::Unseen),
            state,
            wake: None,
        };
        self.threads.insert(tid, thread);
    }

    fn set(&mut self, at: Moment, state: State) {
        let thread = Thread {
            pid: at.pid,
            cpu: at.cpu,
            since: at.time,
            state,
            was_seen: true,
            wake: None,
        };
        if self.threads.insert(at.tid, thread).is_none() {
            self.time.threads += 1;
        }
        if let Some(watched) = &mut self.watched
            && watched.cpus.contains(&at.cpu)
        {
            watched.threads.insert(at.tid);
        }
    }

    /// Returns the start of a thread's state, and whether the state is known. A late record may be
    /// older than the state; then the state has lasted no time.
    fn since(&self, at: Moment) -> Option<(u64, bool)> {
        let thread = self.threads.get(&at.tid)?;
        let since = thread.since.min(at.time);
        match thread.state {
            State::Ended => None,
            State::Unknown => Some((since, false)),
            _ => Some((since, true)),
        }
    }

    pub(super) fn ran_until(&mut self, at: Moment) {
        match self.since(at) {
            Some((since, true)) => {
                let ns = at.time.saturating_sub(since);
                match self.counts(at) {
                    true => self.sums_of(at.tid).on_cpu += ns,
                    false => self.sums_of(at.tid).elsewhere += ns,
                }
            }
            Some((_, false)) => self.unknown_until(at),
            None => {}
        }
    }

    pub(super) fn unknown_until(&mut self, at: Moment) {
        if let Some((since, _)) = self.since(at) {
            let ns = at.time.saturating_sub(since);
            match self.counts(at) {
                true => self.sums_of(at.tid).unknown += ns,
                false => self.sums_of(at.tid).elsewhere += ns,
            }
        }
    }

    /// Counts the time since the last change as waiting. Returns the wait, unless too much of it
    /// was lost. `is_recorded` is true if a thread's wakeup would have a record, except for losses.
    pub(super) fn waited_until(&mut self, at: Moment, is_recorded: bool) -> Option<Wait> {
        let (from, is_known) = self.since(at)?;
        let wake = (self.threads.get(&at.tid)).and_then(Thread::ended_by);
        let (cause, stack, gaps, by_switch) =
            match self.threads.get_mut(&at.tid).map(|t| &mut t.state) {
                Some(State::Off {
                    cause,
                    stack,
                    gaps,
                    looked_at,
                    by_switch,
                }) => {
                    // A thread that woke before the inspection was elsewhere by then.
                    let stack = stack.take().filter(|_| *looked_at <= at.time);
                    (*cause, stack, *gaps, *by_switch)
                }
                _ => (Cause::Blocked, None, self.cpus.gaps(), false),
            };
        let length = at.time.saturating_sub(from);
        let in_gaps = self.cpus.gaps().saturating_sub(gaps);
        if !is_known || in_gaps.saturating_mul(GAPS_IN_WAIT) > length {
            self.unknown_until(at);
            return None;
        }
        if !self.counts(at) {
            self.sums_of(at.tid).elsewhere += length;
            return None;
        }
        // Linux (6.18) records half of the wakeups by interrupts on idle CPUs, and all others.
        let interrupt = Wakeup {
            by: WaitEnd::Interrupt,
            at: at.time,
        };
        let was_recorded = is_recorded && by_switch && in_gaps == 0;
        let wake = wake.or(was_recorded.then_some(interrupt));
        self.time.waits += 1;
        self.keep_for_window(Wait {
            pid: at.pid,
            tid: at.tid,
            // The CPU that filters by CPU expect.
            cpu: match self.watched {
                Some(_) => self.cpu_of(at),
                None => at.cpu,
            },
            from,
            to: at.time,
            weight: length,
            cause,
            stack,
            wake: wake.filter(|_| cause == Cause::Blocked).map(|wake| Wakeup {
                at: wake.at.clamp(from, at.time),
                ..wake
            }),
        })
    }
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
