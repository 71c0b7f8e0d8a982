//! [`Window`]: a time span with recorded switches, if there are too many to record all.
//!
//! ```text
//!   all recorded | window | gap        | window | gap     | window | all recorded
//!             Begin     Pause       Resume    Pause    Resume    Settle
//! ```
//!
//! A window is extrapolated to the gap after it, by scaling each thread's CPU time and waits, cut
//! at the window's bounds. So estimates are unbiased for waits of any length, and each thread's
//! time counts once. An exited thread is extrapolated to its exit. A thread with too little time in
//! a window has unknown time in the gap.

use rustc_hash::FxHashMap;

use super::boundaries::Change;
use super::pairing::Pairing;
use super::thread::State;
use super::time::ThreadTime;
use super::wait::{Cause, Moment, Wait};
use super::wakeups::Wakeup;

/// Minimum share of a window that a thread needs for extrapolation, as a divisor: 1 in 4.
const SPEAKS: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Window {
    began: u64,
    /// Time of its end, during the gap.
    ended: Option<u64>,
    slices: FxHashMap<i32, Slice>,
    /// Slices of exited threads, with the time of the exit.
    done: Vec<(Slice, u64)>,
}

#[derive(Debug, Default)]
struct Slice {
    began: u64,
    /// Time on CPUs and unknown time.
    time: ThreadTime,
    waits: Vec<Wait>,
    switches: u64,
}

impl Window {
    fn slice(&mut self, tid: i32) -> &mut Slice {
        let began = self.began;
        self.slices.entry(tid).or_insert_with(|| Slice {
            began,
            ..Slice::default()
        })
    }

    pub(super) fn count_switch(&mut self, tid: i32) {
        self.slice(tid).switches += 1;
    }

    pub(super) fn switches_of(&self, tid: i32) -> u64 {
        self.slices.get(&tid).map_or(0, |slice| slice.switches)
    }

    /// Sets the stack of a thread's wait that began before the window, if it has none.
    pub(super) fn name_first_wait(&mut self, tid: i32, cause: Cause, stack: &[u8]) {
        let began = self.began;
        let first = (self.slices.get_mut(&tid)).and_then(|slice| slice.waits.first_mut());
        if let Some(wait) = first.filter(|wait| wait.from == began && wait.stack.is_none()) {
            (wait.cause, wait.stack) = (cause, Some(stack.to_vec()));
        }
    }
}

impl Slice {
    /// Extrapolates the slice of a thread that existed until `until`, and adds it to `time`. The
    /// window ended at `ended`. Returns its waits.
    fn settle(self, window: &Window, ended: u64, until: u64, time: &mut ThreadTime) -> Vec<Wait> {
        let here = ended.min(until).saturating_sub(self.began);
        let behind = until.saturating_sub(ended.max(self.began));
        let speaks = here > 0 && here >= ended.saturating_sub(window.began) / SPEAKS;
        let times = |ns: u64| match speaks {
            true => scaled(ns, here + behind, here),
            false => ns,
        };
        time.on_cpu += times(self.time.on_cpu);
        time.unknown += times(self.time.unknown);
        time.elsewhere += times(self.time.elsewhere);
        if !speaks {
            time.unknown += behind;
        }
        let mut waits = self.waits;
        for wait in &mut waits {
            wait.weight = times(wait.weight);
            time.add(wait);
        }
        waits
    }
}

fn scaled(ns: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(ns) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Pairing {
    /// Applies a change in the recording of switches. Returns the waits with final weights.
    pub(super) fn change(&mut self, change: Change, time: u64) -> Vec<Wait> {
        match change {
            Change::Begin => {
                let waits = self.close(time, true);
                self.begin_window(time);
                waits
            }
            Change::Pause(readings) => {
                self.carry(&readings);
                let waits = self.close(time, false);
                if let Some(window) = &mut self.window {
                    window.ended = Some(time);
                }
                waits
            }
            Change::Resume => {
                let waits = self.end_window(time);
                for thread in self.threads.values_mut() {
                    thread.since = time;
                }
                self.cpus.forget();
                self.begin_window(time);
                waits
            }
            Change::Settle(readings) => {
                self.carry(&readings);
                let mut waits = self.close(time, true);
                waits.extend(self.end_window(time));
                waits
            }
            Change::NoWakeups => {
                self.records_wakeups = false;
                self.time.wakers_until = Some(time);
                Vec::new()
            }
        }
    }

    pub(super) fn is_in_gap(&self) -> bool {
        (self.window.as_ref()).is_some_and(|window| window.ended.is_some())
    }

    fn begin_window(&mut self, time: u64) {
        self.time.windows += 1;
        self.window = Some(Window {
            began: time,
            ..Window::default()
        });
        let known = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.was_seen || !self.by_cpu);
        let known: Vec<i32> = known.map(|(tid, _)| *tid).collect();
        for tid in known {
            self.open_slice(tid, time);
        }
    }

    /// Ends the window and the gap after it. All time up to its end must be counted. Returns the
    /// extrapolated waits.
    pub(super) fn end_window(&mut self, time: u64) -> Vec<Wait> {
        let mut waits = Vec::new();
        let Some(mut window) = self.window.take() else {
            return waits;
        };
        let ended = window.ended.unwrap_or(time);
        self.time.paused += time.saturating_sub(ended);
        let slices = std::mem::take(&mut window.slices);
        for (tid, thread) in &self.threads {
            if !slices.contains_key(tid) && (thread.was_seen || !self.by_cpu) {
                // Created in the gap.
                self.time.unknown += time.saturating_sub(thread.since);
            }
        }
        for (slice, until) in std::mem::take(&mut window.done) {
            waits.extend(slice.settle(&window, ended, until, &mut self.time));
        }
        for (tid, mut slice) in slices {
            self.cuts.learn(tid, &slice.waits, window.began, ended);
            self.cuts.divide(tid, &mut slice.waits, window.began, ended);
            waits.extend(slice.settle(&window, ended, time, &mut self.time));
        }
        waits.sort_by_key(|wait| (wait.to, wait.tid, wait.from));
        waits
    }

    /// Counts the time of all threads up to `time`. If not `goes_on`, their states become unseen.
    /// Returns the waits, unless the window keeps them.
    pub(super) fn close(&mut self, time: u64, goes_on: bool) -> Vec<Wait> {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        let mut waits = Vec::new();
        for tid in tids {
            let Some(thread) = self.threads.get(&tid) else {
                continue;
            };
            let at = Moment {
                pid: thread.pid,
                tid,
                cpu: thread.cpu,
                time: time.max(thread.since),
            };
            let counts = thread.was_seen || !self.by_cpu;
            let mut kept = None;
            match &thread.state {
                State::Ended => {
                    if !goes_on {
                        self.threads.remove(&tid);
                    }
                    continue;
                }
                State::On { .. } => self.ran_until(at),
                State::Unknown => self.unknown_until(at),
                State::Off { stack, .. } => {
                    kept = stack.clone().filter(|_| goes_on);
                    waits.extend(self.waited_until(at, false));
                }
                State::Unseen if counts => waits.extend(self.waited_until(at, false)),
                State::Unseen => {}
            }
            let Some(thread) = self.threads.get_mut(&tid) else {
                continue;
            };
            let wake = thread.ended_by().filter(|_| goes_on);
            thread.since = at.time;
            // An awake thread stays awake.
            thread.wake = wake.map(|wake| Wakeup {
                at: wake.at.max(at.time),
                ..wake
            });
            match &mut thread.state {
                State::Off { stack, .. } if goes_on => *stack = kept,
                state if !goes_on => *state = State::Unseen,
                _ => {}
            }
        }
        waits
    }

    /// Handles an EXIT while switches are not recorded.
    pub(super) fn ended_in_gap(&mut self, tid: i32, time: u64) {
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        let is_counted = thread.was_seen || !self.by_cpu;
        match &mut self.window {
            Some(window) if window.slices.contains_key(&tid) => self.close_slice(tid, time),
            _ if is_counted => self.time.unknown += time.saturating_sub(thread.since),
            _ => {}
        }
    }

    pub(super) fn open_slice(&mut self, tid: i32, time: u64) {
        if let Some(window) = self.window.as_mut().filter(|window| window.ended.is_none()) {
            window.slice(tid).began = time;
        }
    }

    pub(super) fn close_slice(&mut self, tid: i32, time: u64) {
        if let Some(window) = &mut self.window
            && let Some(slice) = window.slices.remove(&tid)
        {
            window.done.push((slice, time));
        }
    }

    /// Returns the times of the current window or of the recording, for a thread.
    pub(super) fn sums_of(&mut self, tid: i32) -> &mut ThreadTime {
        match &mut self.window {
            Some(window) => &mut window.slice(tid).time,
            None => &mut self.time,
        }
    }

    /// Keeps a wait until its window is extrapolated. Returns it if all switches are recorded.
    pub(super) fn keep_for_window(&mut self, wait: Wait) -> Option<Wait> {
        match &mut self.window {
            Some(window) => {
                window.slice(wait.tid).waits.push(wait);
                None
            }
            None => {
                self.time.add(&wait);
                Some(wait)
            }
        }
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
