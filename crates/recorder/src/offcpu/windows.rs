//! Windows: time spans with recorded switches, if there are too many to record all.
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

use super::boundaries::Change;
use super::pairing::Pairing;
use super::slices::Window;
use super::thread::State;
use super::time::ThreadTime;
use super::wait::{Moment, Wait};
use super::wakeups::Wakeup;

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
