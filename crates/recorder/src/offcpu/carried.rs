//! Carries the stacks of threads that sleep from one window to the next.
//!
//! If the kernel's switch count of a thread grew only by its recorded switches, the thread is in
//! the same wait as before, with a known stack. Otherwise the thread may be inspected.

use super::pairing::Pairing;
use super::sleeping::{Carried, Reading, Unknown};
use super::thread::{State, Thread};
use super::wait::Cause;

/// Maximum number of threads counted in a window, at some 20 us each; more threads take turns.
const MAX_COUNTED: usize = 256;

/// Maximum switches in a window of a thread that may sleep long.
const FEW_SWITCHES: u64 = 2;

impl Pairing {
    /// Handles counts at the end of a window, and keeps the waits of threads that did not switch.
    pub(super) fn carry(&mut self, readings: &[Reading]) {
        let mut carried = std::mem::take(&mut self.sleeping.carried);
        self.sleeping.unknown.clear();
        for reading in readings {
            let tid = reading.tid;
            let (Some(thread), Some(window)) = (self.threads.get_mut(&tid), &mut self.window)
            else {
                continue;
            };
            // The count must cover exactly the switches up to the end of the window.
            if matches!(thread.state, State::Ended) || thread.since >= reading.at {
                continue;
            }
            let before = (carried.remove(&tid))
                .filter(|its| its.switches + window.switches_of(tid) == reading.switches);
            if let Some(before) = &before {
                window.name_first_wait(tid, before.cause, &before.stack);
            }
            let now = match before {
                Some(before) if matches!(thread.state, State::Unseen) => {
                    thread.state = State::Off {
                        cause: before.cause,
                        stack: Some(before.stack.clone()),
                        gaps: self.cpus.gaps(),
                        looked_at: 0,
                        by_switch: false,
                    };
                    before
                }
                _ => match &thread.state {
                    State::Unseen => {
                        let unknown = (thread.pid, tid, reading.switches);
                        self.sleeping.unknown.push(unknown);
                        continue;
                    }
                    State::Off {
                        cause,
                        stack: Some(stack),
                        ..
                    } => Carried {
                        switches: reading.switches,
                        cause: *cause,
                        stack: stack.clone(),
                    },
                    _ => continue,
                },
            };
            self.sleeping.carried.insert(tid, now);
        }
    }

    /// Returns a counted thread's process, unless the thread is still in its earlier wait.
    pub(super) fn pid_to_look_at(&self, reading: &Reading) -> Option<i32> {
        let carried = self.sleeping.carried.get(&reading.tid);
        let is_known = carried.is_some_and(|its| its.switches == reading.switches);
        let thread = self.threads.get(&reading.tid).filter(|_| !is_known)?;
        Some(thread.pid)
    }

    pub(super) fn take_unknown(&mut self) -> Vec<Unknown> {
        std::mem::take(&mut self.sleeping.unknown)
    }

    pub(super) fn looked_at(&mut self, (_, tid, switches): Unknown, stack: Vec<u8>) {
        if !self.threads.contains_key(&tid) {
            return;
        }
        let cause = Cause::Blocked;
        if let (true, Some(window)) = (self.is_in_gap(), &mut self.window) {
            window.name_first_wait(tid, cause, &stack);
        }
        let carried = Carried {
            switches,
            cause,
            stack,
        };
        self.sleeping.carried.insert(tid, carried);
    }

    pub(super) fn next_to_count(&mut self) -> Vec<i32> {
        let Some(window) = &self.window else {
            return Vec::new();
        };
        let sleeps = |(tid, thread): &(&i32, &Thread)| {
            let is_off = matches!(thread.state, State::Off { .. } | State::Unseen);
            is_off && thread.was_seen && window.switches_of(**tid) <= FEW_SWITCHES
        };
        let mut tids: Vec<i32> = (self.threads.iter())
            .filter(sleeps)
            .map(|(tid, _)| *tid)
            .collect();
        tids.sort_unstable();
        if tids.len() > MAX_COUNTED {
            let turn = tids.partition_point(|tid| *tid <= self.sleeping.turn);
            tids.rotate_left(turn);
            tids.truncate(MAX_COUNTED);
            self.sleeping.turn = tids.last().copied().unwrap_or_default();
        }
        tids
    }
}
