//! Threads that sleep since before the recording: what they wait in is read from their processes.

use std::time::{Duration, Instant};

use rprof_records::{ContextMarker, Misc, SampleFields};

use super::OffCpu;
use super::carried::Reading;
use crate::unwind::Unwinding;

/// Time for looks in one round: all records wait meanwhile.
const ROUND: Duration = Duration::from_millis(10);

/// Most threads that are looked at, one or two in a tenth of a millisecond.
const MOST: usize = 4_000;

impl OffCpu {
    /// Looks at threads that sleep, and of which no record says where, as many as there is time for: those that were there
    /// before the recording, and those that fell asleep between windows.
    pub(crate) fn look_at_sleepers(&mut self, unwinding: &mut Unwinding) {
        let until = Instant::now() + ROUND;
        while let Some((pid, tid, switches)) = self.unknown.pop() {
            if let Some((_, record, _)) =
                (self.sleeper(unwinding, pid, tid)).filter(|(.., its)| *its == switches)
            {
                self.pairing.looked_at((pid, tid, switches), record);
            }
            if Instant::now() >= until {
                return;
            }
        }
        while let Some((pid, tid)) = self.sleepers.pop() {
            if self.pairing.is_unseen(tid)
                && let Some((time, record, _)) = self.sleeper(unwinding, pid, tid)
            {
                self.pairing.found_waiting(tid, time, record);
            }
            if Instant::now() >= until {
                break;
            }
        }
    }

    /// Looks at threads that were counted at the end of a window, but those of which it is known where they are.
    pub(super) fn look_early(&mut self, readings: &[Reading], unwinding: &mut Unwinding) {
        self.looks.clear();
        let until = Instant::now() + ROUND;
        for reading in readings {
            let Some(pid) = self.pairing.pid_to_look_at(reading) else {
                continue;
            };
            if let Some((_, record, switches)) = self.sleeper(unwinding, pid, reading.tid) {
                self.looks.insert(reading.tid, (switches, record));
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Takes what [`look_early`](Self::look_early) found, of threads that are unknown now.
    pub(super) fn use_looks(&mut self) {
        let mut looks = std::mem::take(&mut self.looks);
        let pairing = &mut self.pairing;
        self.unknown.retain(|unknown| {
            let (_, tid, switches) = *unknown;
            match looks.remove(&tid).filter(|(its, _)| *its == switches) {
                Some((_, record)) => pairing.looked_at(*unknown, record),
                None => return true,
            }
            false
        });
    }

    /// Sets the threads to look at.
    pub(super) fn set_sleepers(&mut self, mut threads: Vec<(i32, i32)>) {
        threads.truncate(MOST);
        threads.reverse();
        self.sleepers = threads;
    }

    /// Makes the record that a thread's switch would have left. Returns the time of the look with it, and the thread's switches.
    fn sleeper(
        &self,
        unwinding: &mut Unwinding,
        pid: i32,
        tid: i32,
    ) -> Option<(u64, Vec<u8>, u64)> {
        let monotonic = rprof_sampler::monotonic_ns();
        let now = self.clock.now_ns();
        let found = unwinding.sleeping_stack(pid, tid)?;
        // By the clock of the records.
        let time = now + found.read_at.saturating_sub(monotonic);
        let leaf = (found.chain.iter()).find(|address| !ContextMarker::is_marker(**address));
        let fields = SampleFields {
            id: self.any_id,
            ip: leaf.copied()?,
            pid,
            tid,
            time,
            callchain: found.chain,
            ..SampleFields::default()
        };
        let misc = match found.is_complete {
            true => Misc::USER,
            false => Misc(Misc::USER.0 | Misc::TRUNCATED_STACK.0),
        };
        let mut record = Vec::new();
        fields.encode(misc, &self.taken, &mut record).ok()?;
        Some((time, record, found.switches))
    }
}
