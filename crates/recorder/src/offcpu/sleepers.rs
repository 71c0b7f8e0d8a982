//! Threads that sleep since before the recording: what they wait in is read from their processes.
//!
//! The kernel's part of the stack comes from /proc (`KernelPlace`), the program's from its memory. Each needs rights of its own,
//! so either may be missing.

use std::time::{Duration, Instant};

use rprof_launch::procfs::{KernelPlace, Procfs};
use rprof_records::{ContextMarker, Misc, SampleFields};
use rprof_sampler::Clock;

use super::OffCpu;
use super::carried::Reading;
use super::kernel_functions::KernelFunctions;
use crate::unwind::{SleepingStack, Unwinding};

/// Time for looks in one round: all records wait meanwhile.
const ROUND: Duration = Duration::from_millis(10);

/// Most threads that are looked at, one or two in a tenth of a millisecond.
const MOST: usize = 4_000;

/// What was seen of a thread that sleeps.
#[derive(Debug)]
pub(super) struct Look {
    pid: i32,
    tid: i32,
    /// Time of the look, by the clock of the records.
    time: u64,
    /// Switches of the thread so far.
    switches: u64,
    /// Where in the kernel it sleeps, innermost first; empty where that is not known.
    places: Vec<KernelPlace>,
    /// Addresses of its program behind their marker, leaf first; empty where they are not known.
    chain: Vec<u64>,
    /// True if `chain` reaches its root.
    is_complete: bool,
}

impl OffCpu {
    /// Looks at threads that sleep, and of which no record says where, as many as there is time for: those that were there
    /// before the recording, and those that fell asleep between windows.
    pub(crate) fn look_at_sleepers(&mut self, mut unwinding: Option<&mut Unwinding>) {
        if let Some(functions) = &mut self.kernel_functions {
            functions.take_if_ready();
            if !self.unknown.is_empty() {
                functions.load();
            }
        }
        self.name_kernel_places();
        if self.sleepers.is_empty() && self.unknown.is_empty() {
            return;
        }
        let until = Instant::now() + ROUND;
        while let Some((pid, tid, switches)) = self.unknown.pop() {
            let look = look(unwinding.as_deref_mut(), self.clock, pid, tid);
            if let Some(record) = look
                .filter(|look| look.switches == switches)
                .and_then(|look| self.record_of(&look))
            {
                self.pairing.looked_at((pid, tid, switches), record);
            }
            if Instant::now() >= until {
                return;
            }
        }
        while let Some((pid, tid)) = self.sleepers.pop() {
            if self.pairing.is_unseen(tid)
                && let Some(look) = look(unwinding.as_deref_mut(), self.clock, pid, tid)
            {
                self.found_waiting(&look);
                let functions = self.kernel_functions.as_ref();
                if !look.places.is_empty() && functions.is_some_and(KernelFunctions::is_loading) {
                    self.unnamed_looks.push(look);
                }
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
            if let Some(look) = look(Some(&mut *unwinding), self.clock, pid, reading.tid)
                && let Some(record) = self.record_of(&look)
            {
                self.looks.insert(reading.tid, (look.switches, record));
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

    /// Waits for the list of the kernel's functions, if looks need it.
    pub(super) fn finish_looks(&mut self) {
        if let Some(functions) = &mut self.kernel_functions
            && !self.unnamed_looks.is_empty()
        {
            functions.wait();
        }
        self.name_kernel_places();
    }

    /// Adds the kernel's part to the stacks that were read before the list of the kernel's functions was.
    fn name_kernel_places(&mut self) {
        let is_loading = (self.kernel_functions.as_ref()).is_some_and(KernelFunctions::is_loading);
        if is_loading {
            return;
        }
        for look in std::mem::take(&mut self.unnamed_looks) {
            self.found_waiting(&look);
        }
    }

    fn found_waiting(&mut self, look: &Look) {
        if let Some(record) = self.record_of(look) {
            self.pairing.found_waiting(look.tid, look.time, record);
        }
    }

    /// Makes the record that a thread's switch would have left; `None` where no address is known.
    fn record_of(&self, look: &Look) -> Option<Vec<u8>> {
        let mut chain = self.kernel_chain(&look.places);
        chain.extend(&look.chain);
        let leaf = (chain.iter()).find(|address| !ContextMarker::is_marker(**address));
        let ip = leaf.copied()?;
        let mode = match chain.first() {
            Some(marker) if *marker == ContextMarker::KERNEL.0 => Misc::KERNEL,
            _ => Misc::USER,
        };
        let misc = match look.is_complete {
            true => mode,
            false => Misc(mode.0 | Misc::TRUNCATED_STACK.0),
        };
        let fields = SampleFields {
            id: self.any_id,
            ip,
            pid: look.pid,
            tid: look.tid,
            time: look.time,
            callchain: chain,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        fields.encode(misc, &self.taken, &mut record).ok()?;
        Some(record)
    }

    /// Returns addresses of places behind their marker; none where the kernel's functions are not known.
    fn kernel_chain(&self, places: &[KernelPlace]) -> Vec<u64> {
        let Some(functions) = &self.kernel_functions else {
            return Vec::new();
        };
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

/// Looks at a thread; `None` if it does not sleep, or nothing of it can be read.
fn look(unwinding: Option<&mut Unwinding>, clock: Clock, pid: i32, tid: i32) -> Option<Look> {
    let proc = Procfs::default();
    let id = u32::try_from(tid).ok()?;
    let (now, monotonic) = (clock.now_ns(), rprof_sampler::monotonic_ns());
    let switches = proc.switches(id)?;
    let places = proc.kernel_stack(id);
    let user = match unwinding {
        Some(unwinding) => unwinding.sleeping_stack(pid, tid),
        None => SleepingStack::without_callers(&proc, id),
    };
    let (chain, read_at, is_complete) = match user {
        Some(stack) if stack.switches == switches => {
            (stack.chain, stack.read_at, stack.is_complete)
        }
        // The kernel's part alone, which other rights are needed for.
        None if proc.switches(id) == Some(switches) => {
            (Vec::new(), rprof_sampler::monotonic_ns(), false)
        }
        _ => return None,
    };
    Some(Look {
        pid,
        tid,
        time: now + read_at.saturating_sub(monotonic),
        switches,
        places,
        chain,
        is_complete,
    })
}
