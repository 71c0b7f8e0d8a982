//! [`Cpus`]: what is known of each CPU, between the records of threads.

use super::wait::Moment;

/// Most nanoseconds between the sample of a switch and its record. Both are written with interrupts off; the machine
/// itself may be paused in between.
const SAMPLE_BEFORE_SWITCH: u64 = 100_000_000;

/// Most nanoseconds from the record of a switch out to that of the switch in behind it, if nothing ran between them: the
/// kernel changes stacks and events in that time, with interrupts off.
const WITHIN_SWITCH: u64 = 5_000;

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
    /// Thread that left it last, beginning of that switch and time of its record, until a thread comes.
    switch: Option<(i32, u64, u64)>,
}

/// Moment at which a thread left its CPU, and the sample with which it did, if that is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// Time of the sample, or of the switch where there is none.
    pub(super) began: u64,
    pub(super) stack: Option<Vec<u8>>,
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
            cpu.switch = None;
        }
    }

    /// Notes that a thread left its CPU.
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

    /// Notes that a CPU is idle no more.
    pub(super) fn idle_left(&mut self, number: u32, time: u64) {
        if let Some(cpu) = self.cpu(number, time) {
            (cpu.leaving, cpu.switch) = (None, Some((0, time, time)));
        }
    }

    /// Notes that a thread came onto its CPU. Returns the time at which it has it: that at which the thread before it began to
    /// leave, if it follows at once. So a switch is one moment, as the kernel's own clocks of threads count it.
    pub(super) fn came(&mut self, at: Moment) -> u64 {
        let Some(cpu) = self.cpu(at.cpu, at.time) else {
            return at.time;
        };
        cpu.leaving = None;
        cpu.current = Some(at.tid);
        // Between two switches of one thread another ran, which is not watched.
        let follows = |(tid, _, told): &(i32, u64, u64)| {
            *tid != at.tid && at.time.saturating_sub(*told) <= WITHIN_SWITCH
        };
        let switch = cpu.switch.take().filter(follows);
        switch.map_or(at.time, |(_, began, _)| began.min(at.time))
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
        (cpu.leaving, cpu.switch) = (None, None);
        self.gaps += time.saturating_sub(began);
        Some((cpu.current.take()?, began))
    }

    /// Forgets who is on which CPU.
    pub(super) fn forget(&mut self) {
        for cpu in &mut self.cpus {
            (cpu.current, cpu.leaving, cpu.switch) = (None, None, None);
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
