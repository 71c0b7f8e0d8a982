//! [`Cpus`]: state of each CPU between the records of threads.

use super::wait::Moment;

/// Maximum nanoseconds from a switch's sample to its record. Both are written with interrupts off,
/// but a virtual machine may pause in between.
const SAMPLE_BEFORE_SWITCH: u64 = 100_000_000;

/// Maximum nanoseconds from a switch-out to a direct switch-in. The kernel switches stacks and
/// events in between, with interrupts off.
const WITHIN_SWITCH: u64 = 5_000;

/// Maximum number of CPUs of a kernel, which bounds the memory.
const MAX_CPUS: usize = 1 << 16;

#[derive(Debug, Default)]
struct Cpu {
    last: u64,
    current: Option<i32>,
    /// Switch sample of the leaving thread: thread, time, record.
    leaving: Option<(i32, u64, Vec<u8>)>,
    /// Last switch-out: thread, start of the switch, time of its record. `None` after a switch-in.
    switch: Option<(i32, u64, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// Time of the sample, or of the switch record without a sample.
    pub(super) began: u64,
    pub(super) stack: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Cpus {
    cpus: Vec<Cpu>,
    gaps: u64,
}

impl Cpus {
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }

    pub(super) fn seen(&mut self, number: u32, time: u64) {
        self.cpu(number, time);
    }

    pub(super) fn leaving(&mut self, at: Moment, record: &[u8]) {
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            let mut bytes = cpu.leaving.take().map_or(Vec::new(), |(.., bytes)| bytes);
            bytes.clear();
            bytes.extend_from_slice(record);
            cpu.leaving = Some((at.tid, at.time, bytes));
            cpu.switch = None;
        }
    }

    pub(super) fn left(&mut self, at: Moment) -> Departure {
        let (mut began, mut stack) = (at.time, None);
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            cpu.current = None;
            if let Some((tid, time, bytes)) = cpu.leaving.take()
                && tid == at.tid
                && at.time.saturating_sub(time) <= SAMPLE_BEFORE_SWITCH
            {
                (began, stack) = (time.min(at.time), Some(bytes));
            }
            cpu.switch = Some((at.tid, began, at.time));
        }
        Departure { began, stack }
    }

    pub(super) fn idle_left(&mut self, number: u32, time: u64) {
        if let Some(cpu) = self.cpu(number, time) {
            (cpu.leaving, cpu.switch) = (None, Some((0, time, time)));
        }
    }

    /// Handles a switch-in. Returns its time, or the start of a directly preceding switch-out. So a
    /// switch is one moment, as in the kernel's thread clocks.
    pub(super) fn came(&mut self, at: Moment) -> u64 {
        let Some(cpu) = self.cpu(at.cpu, at.time) else {
            return at.time;
        };
        cpu.leaving = None;
        cpu.current = Some(at.tid);
        // Two switches of the same thread mean that an unrecorded thread ran between them.
        let follows = |(tid, _, told): &(i32, u64, u64)| {
            *tid != at.tid && at.time.saturating_sub(*told) <= WITHIN_SWITCH
        };
        let switch = cpu.switch.take().filter(follows);
        switch.map_or(at.time, |(_, began, _)| began.min(at.time))
    }

    pub(super) fn ran(&mut self, at: Moment) {
        if let Some(cpu) = self.cpu(at.cpu, at.time) {
            cpu.current = Some(at.tid);
        }
    }

    /// Handles a loss reported at `time`. Returns the thread that ran on the CPU, and the start of
    /// the loss.
    pub(super) fn lost(&mut self, number: u32, time: u64) -> Option<(i32, u64)> {
        let cpu = self.cpus.get_mut(usize::try_from(number).ok()?)?;
        let began = cpu.last;
        cpu.last = began.max(time);
        (cpu.leaving, cpu.switch) = (None, None);
        self.gaps += time.saturating_sub(began);
        Some((cpu.current.take()?, began))
    }

    pub(super) fn forget(&mut self) {
        for cpu in &mut self.cpus {
            (cpu.current, cpu.leaving, cpu.switch) = (None, None, None);
        }
    }

    fn cpu(&mut self, number: u32, time: u64) -> Option<&mut Cpu> {
        let number = usize::try_from(number).ok().filter(|n| *n < MAX_CPUS)?;
        if number >= self.cpus.len() {
            self.cpus.resize_with(number + 1, Cpu::default);
        }
        let cpu = self.cpus.get_mut(number)?;
        cpu.last = cpu.last.max(time);
        Some(cpu)
    }
}
