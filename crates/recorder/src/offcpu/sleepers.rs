//! Stacks of threads that were asleep at the start of the recording, read from their processes.
//!
//! Kernel stacks come from /proc (`KernelPlace`), user stacks from process memory. Each needs its
//! own permissions.

use std::time::{Duration, Instant};

use rprof_launch::procfs::{KernelPlace, Procfs};
use rprof_records::{ContextMarker, Misc, SampleFields};
use rprof_sampler::Clock;

use super::OffCpu;
use super::kernel_functions::KernelFunctions;
use super::sleeping::Reading;
use crate::unwind::{SleepingStack, Unwinding};

/// Time limit of inspections in one round, while all records wait.
const ROUND: Duration = Duration::from_millis(10);

/// Maximum number of inspected threads. One or two take 0.1 ms.
const LIMIT: usize = 4_000;

/// Maximum number of threads that are inspected again because their stack was incomplete, and of
/// inspections of each. The images of the first ones are not open yet.
const MAX_EARLY: usize = 64;
const RETRIES: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Look {
    pid: i32,
    tid: i32,
    time: u64,
    switches: u64,
    /// Kernel stack, innermost function first; empty if unknown.
    places: Vec<KernelPlace>,
    /// User callchain after its marker, leaf first; empty if unknown.
    chain: Vec<u64>,
    /// True if `chain` reaches the root.
    is_complete: bool,
}

impl OffCpu {
    /// Inspects threads that sleep in unknown places since before the recording or a gap, within a
    /// time limit.
    pub(crate) fn look_at_sleepers(&mut self, mut unwinding: Option<&mut Unwinding>) {
        if let Some(functions) = &mut self.kernel_functions {
            functions.take_if_ready();
            if !self.unknown.is_empty() {
                functions.load();
            }
        }
        self.name_kernel_places();
        self.look_again(unwinding.as_deref_mut());
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
                if !look.is_complete && self.early_looks.len() < MAX_EARLY {
                    self.early_looks.push((look.clone(), RETRIES));
                }
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

    /// Inspects threads with incomplete stacks again. A longer stack of the same sleep replaces the
    /// first one.
    fn look_again(&mut self, mut unwinding: Option<&mut Unwinding>) {
        let until = Instant::now() + ROUND;
        for (first, left) in std::mem::take(&mut self.early_looks) {
            if Instant::now() >= until {
                self.early_looks.push((first, left));
                continue;
            }
            let again = look(unwinding.as_deref_mut(), self.clock, first.pid, first.tid);
            let Some(again) = again.filter(|again| again.switches == first.switches) else {
                continue;
            };
            let again = Look {
                time: first.time,
                ..again
            };
            if again.chain.len() > first.chain.len() {
                self.found_waiting(&again);
                let unnamed = self.unnamed_looks.iter_mut();
                for look in unnamed.filter(|look| look.tid == again.tid) {
                    look.clone_from(&again);
                }
            }
            if !again.is_complete && left > 1 {
                self.early_looks.push((again, left - 1));
            }
        }
    }

    /// Inspects the threads counted at the end of a window, except those in a known place.
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

    pub(super) fn set_sleepers(&mut self, mut threads: Vec<(i32, i32)>) {
        threads.truncate(LIMIT);
        threads.reverse();
        self.sleepers = threads;
    }

    pub(super) fn finish_looks(&mut self) {
        if let Some(functions) = &mut self.kernel_functions
            && !self.unnamed_looks.is_empty()
        {
            functions.wait();
        }
        self.name_kernel_places();
    }

    /// Adds kernel stacks to inspections from before the list of kernel functions was ready.
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

    /// Synthesizes the switch sample of a thread; `None` if no address is known.
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

    /// Converts places to addresses after a marker; empty if none has a known address.
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

/// Inspects a thread; `None` if it is awake, or if nothing can be read.
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
        // Only the kernel stack, which needs other permissions.
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
