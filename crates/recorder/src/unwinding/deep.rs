//! Stacks that are deeper than what is copied of them.

use std::time::Duration;

use rprof_processes::Pid;
use rprof_unwind::{End, Frame, Memory, Modules, Registers, Root, StackDump};

use super::process_memory::StackMemory;
use super::{Code, MOST_FRAMES, Unwinding};

/// Frames next to the end of a dump whose return addresses must stand in the process's memory
/// as they do in the dump.
const WITNESSES: usize = 2;

/// How often memory is read again for a stack that is new.
const NAPS: u32 = 3;

/// Time between those reads. Many samples fit into the rings meanwhile.
const NAP: Duration = Duration::from_millis(1);

/// Time between two stacks for which that is done, in ns.
const BETWEEN_NAPS: u64 = 50_000_000;

/// Bytes asked for of each stack from which on what lies outside of them is taken to be old. Programs whose true
/// stacks are known show wrong ones where copies are short: callers near the leaf change all the time.
pub(super) const LARGE: u32 = 32 << 10;

/// A sample whose stack is cut short.
pub(super) struct Cut {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    /// When it was taken.
    pub(super) time: u64,
    /// Where the return address is that comes next.
    pub(super) slot: u64,
}

impl Unwinding {
    /// The dump ended before the root, and nothing that is remembered goes on from there: reads on
    /// in the process's memory, and adds the frames if what that shows has long been so. They are not
    /// remembered as a stack that was whole at one moment is: the next sample is to be read as well.
    pub(super) fn go_on_in_memory(
        &mut self,
        cut: &Cut,
        registers: &Registers,
        dump: &StackDump<'_>,
    ) -> Option<Root> {
        let memory = self.memory.stack(cut.pid)?;
        let function = self.function_of(cut.pid, self.frames.last()?)?;
        if let Some(root) = self.as_last_read(cut, function, &memory) {
            return Some(root);
        }
        let mut slots = (self.frames.iter().rev().map(|frame| frame.slot))
            .filter(|slot| *slot != 0)
            .take(WITNESSES)
            .peekable();
        let stands = |slot| memory.read_u64(slot) == dump.read_u64(slot);
        match slots.peek().is_some() && slots.all(stands) {
            true => self.read_on(cut, function, registers, &Both(dump, &memory)),
            false => None,
        }
    }

    /// Unwinds in dump and memory, which agree where they meet.
    fn read_on(
        &mut self,
        cut: &Cut,
        function: u64,
        registers: &Registers,
        both: &Both<'_>,
    ) -> Option<Root> {
        let code = Code::new(cut.pid, &self.map, &self.tables, &self.memory);
        let mut frames = Vec::new();
        let end = (self.unwinder).unwind(registers, both, &code, MOST_FRAMES, &mut frames);
        // What does not lead to a root is no more to be believed than nothing.
        let (End::Root(root), true) = (end, frames.starts_with(&self.frames)) else {
            return None;
        };
        let caller = frames.get(self.frames.len())?;
        if !self.may_call(cut.pid, caller, function) {
            return None;
        }
        let chain = (frames.as_slice(), self.frames.len());
        let times = (cut.time, rprof_sampler::monotonic_ns());
        if self.outer.confirm(cut.thread, chain, function, root, times) {
            self.frames = frames;
            return Some(root);
        }
        self.read_again(cut);
        None
    }

    /// The callers are those that were read last, if they had called the same function, and
    /// still stand in the memory. It does not matter whether what the dump ends with does.
    fn as_last_read(&mut self, cut: &Cut, function: u64, memory: &StackMemory) -> Option<Root> {
        let callers = self.outer.callers_at(cut.thread, cut.slot)?;
        let is_called = |caller| self.may_call(cut.pid, caller, function);
        if self.function_of(cut.pid, &callers.called) != Some(function)
            || !callers.frames.first().is_some_and(is_called)
        {
            return None;
        }
        let stand = are_in(memory, &callers.frames);
        let times = (cut.time, rprof_sampler::monotonic_ns());
        if !(self.outer).still(cut.thread, cut.slot, function, stand, times) {
            return None;
        }
        self.frames.extend(callers.frames);
        Some(callers.root)
    }

    /// Reads the callers that were just found for the first time a few times more, so that the
    /// next samples can be sure of them.
    fn read_again(&mut self, cut: &Cut) {
        let now = rprof_sampler::monotonic_ns();
        let callers = self.outer.callers_at(cut.thread, cut.slot);
        let (Some(callers), true) = (callers, now - self.last_nap >= BETWEEN_NAPS) else {
            return;
        };
        self.last_nap = now;
        for _ in 0..NAPS {
            std::thread::sleep(NAP);
            let memory = self.memory.stack(cut.pid);
            if !memory.is_some_and(|memory| are_in(&memory, &callers.frames)) {
                return;
            }
            let now = rprof_sampler::monotonic_ns();
            // Of no sample: it only counts.
            (self.outer).still(cut.thread, cut.slot, 0, true, (0, now));
        }
    }

    /// Whether the call before this frame's return address may be one of the function: a direct call of
    /// another one (x86-64 `call rel32`) is not, unless its target goes on elsewhere.
    fn may_call(&self, pid: Pid, caller: &Frame, function: u64) -> bool {
        let mut call = [0; 5];
        let at = caller.address.wrapping_sub(5);
        let is_direct = cfg!(target_arch = "x86_64")
            && self.memory.copy(pid, at, &mut call) == call.len()
            && call[0] == 0xe8;
        if !is_direct {
            return true;
        }
        let [_, offset @ ..] = call;
        let offset = i64::from(i32::from_le_bytes(offset));
        let target = caller.address.wrapping_add_signed(offset);
        let mut code = [0; 6];
        let len = self.memory.copy(pid, target, &mut code);
        let code = &code[..len.min(code.len())];
        let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
        let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
        // `jmp *GOT` of a PLT entry, and a plain jump.
        target == function || matches!(code, [0xff, ..] | [0xe9, ..] | [0xeb, ..])
    }

    /// Where the function of a frame starts.
    fn function_of(&self, pid: Pid, frame: &Frame) -> Option<u64> {
        let code = Code::new(pid, &self.map, &self.tables, &self.memory);
        let module = code.find(frame.lookup_address())?;
        let svma = frame.lookup_address().wrapping_sub(module.bias);
        let start = module.table?.function_start(svma)?;
        Some(start.wrapping_add(module.bias))
    }
}

/// Whether the return addresses stand in the memory.
fn are_in(memory: &StackMemory, frames: &[Frame]) -> bool {
    let mut slots = frames.iter().filter(|frame| frame.slot != 0);
    slots.all(|frame| memory.read_u64(frame.slot) == Some(frame.address))
}

/// The dump, and behind its end the process's memory.
struct Both<'a>(&'a StackDump<'a>, &'a StackMemory);

impl Memory for Both<'_> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let known = self.0.read_u64(avma);
        known.or_else(|| match avma >= self.0.end() {
            true => self.1.read_u64(avma),
            false => None,
        })
    }
}
