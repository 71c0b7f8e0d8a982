//! Threads that sleep since before the recording: what they wait in is read from their processes.
//!
//! The kernel's part of the stack comes from /proc (`KernelPlace`), the program's from its memory. Each needs rights of its own,
//! so either may be missing.

use std::time::{Duration, Instant};

use rprof_launch::procfs::Procfs;
use rprof_records::{ContextMarker, Misc, SampleFields};

use super::OffCpu;
use super::carried::Reading;
use crate::unwind::{SleepingStack, Unwinding};

/// Time for looks in one round: all records wait meanwhile.
const ROUND: Duration = Duration::from_millis(10);

/// Most threads that are looked at, one or two in a tenth of a millisecond.
const MOST: usize = 4_000;

impl OffCpu {
    /// Looks at threads that sleep, and of which no record says where, as many as there is time for: those that were there
    /// before the recording, and those that fell asleep between windows.
    pub(crate) fn look_at_sleepers(&mut self, mut unwinding: Option<&mut Unwinding>) {
        if self.sleepers.is_empty() && self.unknown.is_empty() {
            return;
        }
        if let Some(functions) = &mut self.kernel_functions {
            match self.sleepers.is_empty() {
                false => functions.wait(),
                true => {
                    functions.load();
                    functions.take_if_ready();
                }
            }
        }
        let until = Instant::now() + ROUND;
        while let Some((pid, tid, switches)) = self.unknown.pop() {
            if let Some((_, record, _)) = (self.sleeper(unwinding.as_deref_mut(), pid, tid))
                .filter(|(.., its)| *its == switches)
            {
                self.pairing.looked_at((pid, tid, switches), record);
            }
            if Instant::now() >= until {
                return;
            }
        }
        while let Some((pid, tid)) = self.sleepers.pop() {
            if self.pairing.is_unseen(tid)
                && let Some((time, record, _)) = self.sleeper(unwinding.as_deref_mut(), pid, tid)
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
            if let Some((_, record, switches)) =
                self.sleeper(Some(&mut *unwinding), pid, reading.tid)
            {
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
    /// `None` for a thread that does not sleep, or of which nothing can be read.
    fn sleeper(
        &self,
        unwinding: Option<&mut Unwinding>,
        pid: i32,
        tid: i32,
    ) -> Option<(u64, Vec<u8>, u64)> {
        let proc = Procfs::default();
        let id = u32::try_from(tid).ok()?;
        let monotonic = rprof_sampler::monotonic_ns();
        let now = self.clock.now_ns();
        let switches = proc.switches(id)?;
        let mut chain = self.kernel_chain(&proc, id);
        let user = match unwinding {
            Some(unwinding) => unwinding.sleeping_stack(pid, tid),
            None => SleepingStack::without_callers(&proc, id),
        };
        let (read_at, is_complete) = match user {
            Some(stack) if stack.switches == switches => {
                chain.extend(stack.chain);
                (stack.read_at, stack.is_complete)
            }
            // The kernel's part alone, which other rights are needed for.
            None if proc.switches(id) == Some(switches) => (rprof_sampler::monotonic_ns(), false),
            _ => return None,
        };
        // By the clock of the records.
        let time = now + read_at.saturating_sub(monotonic);
        let leaf = (chain.iter()).find(|address| !ContextMarker::is_marker(**address));
        let ip = leaf.copied()?;
        let mode = match chain.first() {
            Some(marker) if *marker == ContextMarker::KERNEL.0 => Misc::KERNEL,
            _ => Misc::USER,
        };
        let misc = match is_complete {
            true => mode,
            false => Misc(mode.0 | Misc::TRUNCATED_STACK.0),
        };
        let fields = SampleFields {
            id: self.any_id,
            ip,
            pid,
            tid,
            time,
            callchain: chain,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        fields.encode(misc, &self.taken, &mut record).ok()?;
        Some((time, record, switches))
    }

    /// Returns the kernel's part of the callchain of a thread that sleeps; empty where nothing is known of it.
    fn kernel_chain(&self, proc: &Procfs, tid: u32) -> Vec<u64> {
        let Some(functions) = &self.kernel_functions else {
            return Vec::new();
        };
        let places = proc.kernel_stack(tid);
        let mut addresses = places
            .iter()
            .filter_map(|place| functions.address(place))
            .peekable();
        match addresses.peek().is_some() {
            true => std::iter::once(ContextMarker::KERNEL.0)
                .chain(addresses)
                .collect(),
            false => Vec::new(),
        }
    }
}
