//! [`Pairing`]: switches out and in of threads to waits.
//!
//! | record | does |
//! |---|---|
//! | sample of the switch event | is the stack of the switch that follows on the CPU, of the same thread |
//! | switch out | the thread waits from now on |
//! | switch in | the wait is over |
//! | sample of another event, of a thread that waits | the wait is over: its end was lost, or is just coming |
//! | birth | the thread waits for a CPU |
//! | wakeup | the wait is one for a CPU from now on. All that threads make are recorded; where one is missing it was an interrupt's on an idle CPU |
//! | end, exec | the thread is gone, or is another |
//! | loss on a CPU | what was on it is unknown; a wait that may have had an end in there is not believed |
//!
//! A switch is one moment, which begins with the sample of the thread that leaves: recording it takes longer than all
//! else that a thread of many switches does, and may not count as a wait of both.
//!
//! The first record of a thread that is there when the recording begins tells what it did until then: who comes in
//! was away, whoever leaves, ends or is sampled was on a CPU.

use rprof_records::WaitEnd;
use rustc_hash::{FxHashMap, FxHashSet};

use super::carried::Sleeping;
use super::cpus::{Cpus, Departure};
use super::cuts::Cuts;
use super::thread::{State, Thread};
use super::time::ThreadTime;
use super::wait::{Cause, Moment, Wait};
use super::wakeups::Wakeup;
use super::windows::Window;

/// Nanoseconds for which the kernel may still be sampled on behalf of a thread whose switch it has told of.
const STILL_SWITCHING: u64 = 50_000;

/// Nanoseconds by which a sample may come before the switch in that it belongs to.
const JUST_COMING: u64 = 1_000_000;

/// Part of a wait that may lie in gaps: 1 in 20. Of a longer gap nobody knows what was in it.
const GAPS_IN_WAIT: u64 = 20;

/// CPUs that are watched.
#[derive(Debug, Default)]
struct Watched {
    cpus: FxHashSet<u32>,
    /// Threads that were on one of them.
    threads: FxHashSet<i32>,
}

/// Pairs switches; records are to come in the order of time.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    pub(super) threads: FxHashMap<i32, Thread>,
    pub(super) cpus: Cpus,
    /// True if whole CPUs are watched: then a switch out follows the end of a thread, and those of which no record ever
    /// comes are not counted.
    pub(super) by_cpu: bool,
    pub(super) time: ThreadTime,
    /// CPUs that are watched, if not all are. Switches are told of on all; counted are the time on these, and waits that
    /// began there.
    watched: Option<Watched>,
    /// The window that is open, or was last, where switches are recorded in windows.
    pub(super) window: Option<Window>,
    pub(super) sleeping: Sleeping,
    pub(super) cuts: Cuts,
    /// True if wakeups are recorded.
    pub(super) records_wakeups: bool,
}

impl Pairing {
    /// Begins with no thread.
    pub(super) fn new(by_cpu: bool) -> Pairing {
        Pairing {
            by_cpu,
            ..Pairing::default()
        }
    }

    /// Counts what is on these CPUs, and waits that begin there, alone.
    pub(super) fn watch_cpus(&mut self, cpus: &[u32]) {
        self.watched = Some(Watched {
            cpus: cpus.iter().copied().collect(),
            threads: FxHashSet::default(),
        });
    }

    /// Returns whether what a thread does, or waits for since it left its CPU, is counted.
    fn counts(&self, at: Moment) -> bool {
        let Some(watched) = &self.watched else {
            return true;
        };
        watched.cpus.contains(&self.cpu_of(at))
    }

    /// Returns the CPU on which a thread is, or which it left; for one of which that is not known, the one it comes to.
    fn cpu_of(&self, at: Moment) -> u32 {
        let cpu = self.threads.get(&at.tid).map(|thread| thread.cpu);
        cpu.filter(|cpu| *cpu != u32::MAX).unwrap_or(at.cpu)
    }

    /// Sums of what threads did so far.
    pub(super) fn time(&self) -> &ThreadTime {
        &self.time
    }

    /// Begins to watch at this time: threads that are known by now, and `others`, processes and threads.
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

    /// Forgets a thread that was found, and is none of those that are watched.
    pub(super) fn leave_out(&mut self, tid: i32) {
        let was_there = self.threads.remove(&tid).is_some();
        self.time.threads = self.time.threads.saturating_sub(u64::from(was_there));
    }

    /// Adds a thread that was there before.
    pub(super) fn found(&mut self, pid: i32, tid: i32, time: u64) {
        self.insert(pid, tid, u32::MAX, time, State::Unseen);
    }

    /// Handles the sample with which a thread leaves its CPU, a whole record.
    pub(super) fn leaving(&mut self, at: Moment, record: &[u8]) {
        if !self.is_in_gap() {
            self.cpus.leaving(at, record);
        }
    }

    /// Handles a switch from a thread, which could have gone on if `runnable`.
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
            // It was away, and nothing told that it came back.
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
        // Recorded on another CPU while this one was still writing.
        if let Some(thread) = self.threads.get_mut(&at.tid) {
            thread.wake = wake;
            thread.wake = thread.ended_by();
        }
    }

    /// Handles a switch to a thread. Returns the wait that ends.
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

    /// Handles a wakeup of a thread, by what ran on this CPU. Returns whether the thread is watched.
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

    /// Handles a switch from the idle task of a CPU.
    pub(super) fn idle_left(&mut self, cpu: u32, time: u64) {
        if !self.is_in_gap() {
            self.cpus.idle_left(cpu, time);
        }
    }

    /// Returns a moment at an earlier time, but none before what is counted of the thread.
    fn moved(&self, at: Moment, time: u64) -> Moment {
        let since = self.threads.get(&at.tid).map_or(0, |thread| thread.since);
        Moment {
            time: time.max(since).min(at.time),
            ..at
        }
    }

    /// Handles a sample of an event that counts what runs. Returns the wait that must be over.
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

    /// Returns true for a thread that was there when the recording began, and of which nothing is known since.
    pub(super) fn is_unseen(&self, tid: i32) -> bool {
        let thread = self.threads.get(&tid);
        !self.is_in_gap() && thread.is_some_and(|thread| matches!(thread.state, State::Unseen))
    }

    /// Returns true for a thread of which there was a record.
    pub(super) fn has_seen(&self, tid: i32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.was_seen)
    }

    /// Returns true for a thread that is watched.
    pub(super) fn knows(&self, tid: i32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Takes the stack of a thread that is unseen and waits, as it was at this time: a whole record. A second one of the
    /// same time replaces the first.
    pub(super) fn found_waiting(&mut self, tid: i32, time: u64, record: Vec<u8>) {
        let gaps = self.cpus.gaps();
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        match &mut thread.state {
            // More is known of what was found then.
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

    /// Handles the birth of a thread, which waits for its first time on a CPU.
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

    /// Handles the end of a thread.
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

    /// Handles the beginning of another program: one thread goes on, under the number of the process.
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
        // The one that calls execve(2) runs. The first of the process's may have waited for its own end.
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

    /// Handles a loss of records on a CPU, which was told at this time.
    pub(super) fn lost(&mut self, cpu: u32, time: u64) {
        if self.is_in_gap() {
            return;
        }
        // It may be anywhere by now.
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

    /// Ends the recording at this time. Returns the waits that go on, by thread.
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
            // Its end was not told.
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

    /// Returns the time at which the state of a thread began, and whether it is known.
    fn since(&self, at: Moment) -> Option<(u64, bool)> {
        let thread = self.threads.get(&at.tid)?;
        match thread.state {
            State::Ended => None,
            State::Unknown => Some((thread.since, false)),
            _ => Some((thread.since, true)),
        }
    }

    /// Counts the time up to now as that of a thread that ran.
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

    /// Counts the time up to now as unknown.
    pub(super) fn unknown_until(&mut self, at: Moment) {
        if let Some((since, _)) = self.since(at) {
            let ns = at.time.saturating_sub(since);
            match self.counts(at) {
                true => self.sums_of(at.tid).unknown += ns,
                false => self.sums_of(at.tid).elsewhere += ns,
            }
        }
    }

    /// Counts the time up to now as that of a thread that waited, and returns the wait, if that is certain. Its wakeup
    /// `is_recorded` if a thread made it, unless records were lost.
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
                    // One that woke before the look was somewhere else by then.
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
        // Linux (6.18) records half of those that interrupts on idle CPUs make, and all others.
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
            // As filters by CPU are to have it.
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
