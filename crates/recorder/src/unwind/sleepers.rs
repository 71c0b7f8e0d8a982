//! Stacks of threads that sleep, read from their processes.
//!
//! A thread that is blocked stands still, so its stack can be read at leisure. /proc tells where it is
//! (proc_pid_syscall(5)): its stack pointer and instruction pointer, and no other register; a frame that needs one which nobody
//! saved ends the stack. What was read is true if the thread was not switched meanwhile.

use rprof_launch::procfs::Procfs;
use rprof_processes::Pid;
use rprof_records::ContextMarker;
use rprof_unwind::Registers;

use super::chain;
use super::deferred_sample::MOST_FRAMES;
use super::{ProcessCode, Unwinding};

/// Stack of a thread that sleeps.
#[derive(Debug)]
pub(crate) struct SleepingStack {
    /// User addresses, leaf first, behind their marker.
    pub(crate) chain: Vec<u64>,
    /// True if it reaches its root.
    pub(crate) is_complete: bool,
    /// Time of the reading, by the clock of the machine's own (CLOCK_MONOTONIC).
    pub(crate) read_at: u64,
    /// Switches of the thread so far.
    pub(crate) switches: u64,
}

impl SleepingStack {
    /// Reads where in its program a thread sleeps, without the functions that called it.
    pub(crate) fn without_callers(proc: &Procfs, tid: u32) -> Option<SleepingStack> {
        let switches = proc.switches(tid)?;
        let (_, ip) = proc.blocked_at(tid)?;
        (proc.switches(tid) == Some(switches)).then(|| SleepingStack {
            chain: vec![ContextMarker::USER.0, ip],
            is_complete: false,
            read_at: rprof_sampler::monotonic_ns(),
            switches,
        })
    }
}

impl Unwinding {
    /// Reads the stack of a thread, if it sleeps, and may be looked at (PTRACE_MODE_ATTACH).
    pub(crate) fn sleeping_stack(&mut self, pid: i32, tid: i32) -> Option<SleepingStack> {
        let proc = Procfs::default();
        let id = u32::try_from(tid).ok()?;
        let before = proc.switches(id)?;
        let (sp, ip) = proc.blocked_at(id)?;
        let memory = self.memory.stack(Pid(pid))?;
        let now = rprof_sampler::monotonic_ns();
        self.tables.jit.set_time(now);
        self.memory.at(now);
        self.tables.begin_sample(&self.map);
        self.clock.begin_sample(Pid(pid));
        let code = ProcessCode::new(Pid(pid), &self.map, &self.tables, &self.memory, &self.clock);
        let registers = Registers::new(self.arch, ip, sp);
        let frames = &mut self.frames;
        let end = (self.unwinder).unwind(&registers, &memory, &code, MOST_FRAMES, frames);
        self.clock.end_sample();
        let read_at = rprof_sampler::monotonic_ns();
        let stood_still = proc.switches(id) == Some(before);
        if self.frames.is_empty() || !stood_still {
            return None;
        }
        let mut chain = Vec::with_capacity(self.frames.len() + 1);
        chain::append_frames(&self.frames, &mut chain);
        Some(SleepingStack {
            chain,
            is_complete: end.is_complete(),
            read_at,
            switches: before,
        })
    }
}
