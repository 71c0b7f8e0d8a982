//! [`Cpus`]: what is known of each CPU, between the records of threads.

use super::wait::Moment;

/// Most nanoseconds between the sample of a switch and its record. Both are written with interrupts off; the machine
/// itself may be paused in between.
const SAMPLE_BEFORE_SWITCH: u64 = 100_000_000;

/// Number of CPUs that a kernel can have, which bounds what is kept by CPU.
const MOST_CPUS: usize = 1 << 16;

/// State of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Time of its last record.
    last: u64,
    /// Thread that runs on it.
    current: Option<i32>,
    /// Sample of the thread that is about to leave: thread, time, record.
    leaving: Option<(i32, u64, Vec<u8>)>,
}

/// CPUs, by number.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    cpus: Vec<Cpu>,
    gaps: u64,
}

impl Cpus {
    /// Returns the nanoseconds in gaps so far, of all CPUs.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Notes that there is a record of a CPU of this time.
    pub(super) fn seen(&mut self, number: u32, time: u64) {
        self.cpu(number, time);
    }

    /// Keeps the sample of a thread that is about to leave its CPU.
    pub(super) fn leaving(&mut self, at: Moment, record: &[u8]) {
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            let mut bytes = cpu.leaving.take().map_or(Vec::new(), |(.., bytes)| bytes);
            bytes.clear();
            bytes.extend_from_slice(record);
            cpu.leaving = Some((at.tid, at.time, bytes));
        }
    }

    /// Notes that a thread left its CPU. Returns the sample with which it did, if that is there.
    pub(super) fn left(&mut self, at: Moment) -> Option<Vec<u8>> {
        let cpu = self.cpu(at.cpu, at.time)?;
        cpu.current = None;
        let (tid, time, bytes) = cpu.leaving.take()?;
        let is_its = tid == at.tid && at.time.saturating_sub(time) <= SAMPLE_BEFORE_SWITCH;
        is_its.then_some(bytes)
    }

    /// Notes that a thread came onto its CPU.
    pub(super) fn came(&mut self, at: Moment) {
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            cpu.leaving = None;
            cpu.current = Some(at.tid);
        }
    }

    /// Notes that a thread runs on its CPU.
    pub(super) fn ran(&mut self, at: Moment) {
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            cpu.current = Some(at.tid);
        }
    }

    /// Notes a loss on a CPU that was told at this time. Returns the thread that ran there, and when the gap began.
    pub(super) fn lost(&mut self, number: u32, time: u64) -> Option<(i32, u64)> {
        let cpu = self.cpus.get_mut(usize::try_from(number).ok()?)?;
        let began = cpu.last;
        cpu.last = began.max(time);
        cpu.leaving = None;
        self.gaps += time.saturating_sub(began);
        Some((cpu.current.take()?, began))
    }

    /// Forgets who is on which CPU.
    pub(super) fn forget(&mut self) {
        for cpu in &mut self.cpus {
            (cpu.current, cpu.leaving) = (None, None);
        }
    }

    fn cpu(&mut self, number: u32, time: u64) -> Option<&mut Cpu> {
        let number = usize::try_from(number).ok().filter(|n| *n < MOST_CPUS)?;
        if number >= self.cpus.len() {
            self.cpus.resize_with(number + 1, Cpu::default);
        }
        let cpu = self.cpus.get_mut(number)?;
        cpu.last = cpu.last.max(time);
        Some(cpu)
    }
}
