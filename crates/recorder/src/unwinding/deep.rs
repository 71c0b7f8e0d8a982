//! Stacks that are deeper than what is copied of them.

use rprof_processes::Pid;
use rprof_unwind::{End, Memory, Registers, StackDump};

use super::process_memory::StackMemory;
use super::{Code, MOST_FRAMES, Unwinding};

/// Frames next to the end of a dump whose return addresses must stand in the process's memory
/// as they do in the dump.
const WITNESSES: usize = 2;

impl Unwinding {
    /// The dump ended before the root, and nothing that is remembered goes on from there: reads on
    /// in the process's memory. What that shows is believed if it has long been so. It is not
    /// remembered as a stack that was whole at one moment is: the next sample is to be read as well.
    pub(super) fn go_on_in_memory(
        &mut self,
        pid: Pid,
        thread: u64,
        time: u64,
        registers: &Registers,
        dump: &StackDump<'_>,
        end: End,
    ) -> End {
        let Some(memory) = self.memory.stack(pid) else {
            return end;
        };
        let mut slots = (self.frames.iter().rev().map(|frame| frame.slot))
            .filter(|slot| *slot != 0)
            .take(WITNESSES)
            .peekable();
        let stands = |slot| memory.read_u64(slot) == dump.read_u64(slot);
        if slots.peek().is_none() || !slots.all(stands) {
            let read = |slot| memory.read_u64(slot);
            return match self.outer.known(thread, &self.frames, read) {
                Some((callers, root)) => {
                    self.frames.extend(callers);
                    End::Joined(root)
                }
                None => end,
            };
        }
        let code = Code {
            pid,
            map: &self.map,
            mappings: self.map.mappings(pid),
            tables: &self.tables,
            memory: &self.memory,
        };
        let both = Both(dump, &memory);
        let mut frames = Vec::new();
        let whole = (self.unwinder).unwind(registers, &both, &code, MOST_FRAMES, &mut frames);
        // What does not lead to a root is no more to be believed than nothing.
        let (End::Root(root), true) = (whole, frames.starts_with(&self.frames)) else {
            return end;
        };
        let chain = (frames.as_slice(), self.frames.len());
        let times = (time, rprof_sampler::monotonic_ns());
        if !self.outer.confirm(thread, chain, root, times) {
            return end;
        }
        self.frames = frames;
        End::Joined(root)
    }
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
