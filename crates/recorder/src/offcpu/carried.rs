//! [`Carried`]: stacks of threads that sleep on from one window to the next.
//!
//! The kernel counts the switches of each thread. If there were no more of them than were recorded since it was last counted, the
//! thread still is in the wait in which it was then, and its stack is known; if there were, it may be looked at.

use rustc_hash::FxHashMap;

use super::pairing::Pairing;
use super::thread::{State, Thread};
use super::wait::Cause;

/// Most threads whose switches are counted in a window, at some 20 us each; if there are more, each has its turn.
const MOST_COUNTED: usize = 256;

/// Most switches in a window of a thread that may be one that sleeps long.
const FEW_SWITCHES: u64 = 2;

/// Switches of a thread so far, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) tid: i32,
    pub(super) switches: u64,
    /// Time before it was read.
    pub(super) at: u64,
}

/// Thread in an unknown wait, with its number of switches: process, thread, switches.
pub(super) type Unknown = (i32, i32, u64);

/// The wait in which a thread is that sleeps.
#[derive(Debug)]
struct Carried {
    switches: u64,
    cause: Cause,
    stack: Vec<u8>,
}

/// Waits of threads that sleep on.
#[derive(Debug, Default)]
pub(super) struct Sleeping {
    carried: FxHashMap<i32, Carried>,
    /// Threads that are in a wait that is not known.
    unknown: Vec<Unknown>,
    /// Thread behind which the next ones to count begin.
    turn: i32,
}

impl Pairing {
    /// Takes in counts at the end of a window: who did not switch since the last ones is where it was then.
    pub(super) fn carry(&mut self, readings: &[Reading]) {
        let mut carried = std::mem::take(&mut self.sleeping.carried);
        self.sleeping.unknown.clear();
        for reading in readings {
            let tid = reading.tid;
            let (Some(thread), Some(window)) = (self.threads.get_mut(&tid), &mut self.window)
            else {
                continue;
            };
            // What it counts must be the switches up to the end of the window.
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

    /// Returns the process of a thread that was counted, unless it is known to be in the wait in which it was counted before.
    pub(super) fn pid_to_look_at(&self, reading: &Reading) -> Option<i32> {
        let carried = self.sleeping.carried.get(&reading.tid);
        let is_known = carried.is_some_and(|its| its.switches == reading.switches);
        let thread = self.threads.get(&reading.tid).filter(|_| !is_known)?;
        Some(thread.pid)
    }

    /// Takes the threads whose wait is not known, to look at them.
    pub(super) fn take_unknown(&mut self) -> Vec<Unknown> {
        std::mem::take(&mut self.sleeping.unknown)
    }

    /// Takes the stack of a thread that had switched so many times when it was looked at: a whole record.
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

    /// Returns the threads whose switches are to be counted in the next window, at the end of one.
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
        if tids.len() > MOST_COUNTED {
            let turn = tids.partition_point(|tid| *tid <= self.sleeping.turn);
            tids.rotate_left(turn);
            tids.truncate(MOST_COUNTED);
            self.sleeping.turn = tids.last().copied().unwrap_or_default();
        }
        tids
    }
}
