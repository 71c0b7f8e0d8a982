//! Unwinds stacks of sleeping threads from process memory.
//!
//! The stack of a blocked thread does not change. /proc gives its stack and instruction pointer
//! (proc_pid_syscall(5)), but no other register. A frame that needs an unsaved one ends the stack.
//! The result is valid unless the thread switched meanwhile.

use rprof_launch::procfs::Procfs;
use rprof_processes::{ImageKind, LiveMapping, Pid};
use rprof_records::ContextMarker;
use rprof_unwind::{Arch, Registers};

use super::chain;
use super::deferred_sample::MAX_FRAMES;
use super::interpreters::{Sources, UnwoundSample};
use super::tally::InterpretedTally;
use super::{ProcessCode, Unwinding, thread};

/// Maximum number of attempts to find the interpreted functions of a stack.
const ATTEMPTS: usize = 4;

#[derive(Debug)]
pub(crate) struct SleepingStack {
    pub(crate) chain: Vec<u64>,
    pub(crate) is_complete: bool,
    /// Time of the read, on CLOCK_MONOTONIC.
    pub(crate) read_at: u64,
    pub(crate) switches: u64,
}

impl SleepingStack {
    /// Reads the user address at which a thread sleeps, without callers.
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
    /// Returns the architecture of a process's threads, by its vdso. `None` for 32-bit ARM.
    fn arch_of(&self, pid: Pid) -> Option<Arch> {
        let kind = |mapping: &LiveMapping| Some(self.map.image(mapping.backing)?.kind);
        let mut mappings = self.map.mappings(pid).iter();
        let is_32_bit = mappings.any(|mapping| kind(mapping) == Some(ImageKind::Vdso32));
        match self.arch {
            Arch::X86_64 if is_32_bit => Some(Arch::X86),
            arch => (!is_32_bit).then_some(arch),
        }
    }

    /// Unwinds a thread's stack if it sleeps and may be inspected (PTRACE_MODE_ATTACH).
    pub(crate) fn sleeping_stack(&mut self, pid: i32, tid: i32) -> Option<SleepingStack> {
        let proc = Procfs::default();
        let id = u32::try_from(tid).ok()?;
        let Some(arch) = self.arch_of(Pid(pid)) else {
            return SleepingStack::without_callers(&proc, id);
        };
        let before = proc.switches(id)?;
        let (sp, ip) = proc.blocked_at(id)?;
        let memory = self.memory.stack(Pid(pid))?;
        let now = rprof_sampler::monotonic_ns();
        self.tables.jit.set_time(now);
        self.memory.at(now);
        self.tables.begin_sample(&self.map);
        self.clock.begin_sample(Pid(pid));
        let code = ProcessCode::new(Pid(pid), &self.map, &self.tables, &self.memory, &self.clock);
        let registers = Registers::new(arch, ip, sp);
        let frames = &mut self.frames;
        let kept = self.interpreters.watch(Pid(pid));
        let is_watched = kept.is_some();
        let end = match kept {
            None => (self.unwinder).unwind(&registers, &memory, &code, MAX_FRAMES, frames),
            Some(kept) => (self.unwinder)
                .unwind_with_registers(&registers, &memory, &code, MAX_FRAMES, frames, kept),
        };
        self.clock.end_sample();
        let mut chain = Vec::with_capacity(self.frames.len() + 1);
        match is_watched {
            false => chain::append_frames(&self.frames, &mut chain),
            true => {
                let sample = UnwoundSample {
                    pid: Pid(pid),
                    thread: thread(tid),
                    time: now,
                    frames: &self.frames,
                    memory: &memory,
                    is_complete: end.is_complete(),
                    is_asleep: true,
                };
                let sources = Sources {
                    map: &self.map,
                    tables: &self.tables,
                    memory: &self.memory,
                };
                // The first stacks teach where the interpreter keeps its variables.
                for _ in 0..ATTEMPTS {
                    let tally = &mut InterpretedTally::default();
                    self.interpreters.read(&sample, &sources, tally);
                    if self.interpreters.found_all() {
                        break;
                    }
                }
                chain.push(ContextMarker::USER.0);
                self.interpreters.append(&self.frames, &mut chain);
            }
        }
        let read_at = rprof_sampler::monotonic_ns();
        let stood_still = proc.switches(id) == Some(before);
        if self.frames.is_empty() || !stood_still {
            return None;
        }
        Some(SleepingStack {
            chain,
            is_complete: end.is_complete(),
            read_at,
            switches: before,
        })
    }
}
