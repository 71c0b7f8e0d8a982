//! [`ProcessCode`]: lookup of a process's code for the unwinder.

use std::sync::Arc;

use rprof_processes::{ImageKind, LiveMap, LiveMapping, Pid};
use rprof_unwind::{Arch, CodeLookup, FrameKind, Module, Modules, StackFrame, UnwindTable};

use super::clock::SampleClock;
use super::process_memory::ProcessMemories;
use super::tables::{Tables, TooSlow};

pub(super) const ARCH: Option<Arch> = if cfg!(target_arch = "x86_64") {
    Some(Arch::X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(Arch::Aarch64)
} else {
    None
};

/// Returns a thread's or process's key in the unwinder and its
/// [`DeepStackCompleter`](rprof_unwind::DeepStackCompleter).
pub(super) fn thread(tid: i32) -> u64 {
    u64::from(tid.cast_unsigned())
}

/// Bit in a function's address if the function made no call. User code addresses do not use it.
const TOP: u64 = 1 << 63;

pub(super) struct ProcessCode<'a> {
    pid: Pid,
    map: &'a LiveMap,
    mappings: &'a [LiveMapping],
    generation: u64,
    tables: &'a Tables,
    memory: &'a ProcessMemories,
    clock: &'a SampleClock,
}

impl<'a> ProcessCode<'a> {
    pub(super) fn new(
        pid: Pid,
        map: &'a LiveMap,
        tables: &'a Tables,
        memory: &'a ProcessMemories,
        clock: &'a SampleClock,
    ) -> ProcessCode<'a> {
        ProcessCode {
            pid,
            map,
            mappings: map.mappings(pid),
            generation: map.generation(pid),
            tables,
            memory,
            clock,
        }
    }
}

impl Modules for ProcessCode<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let mapping = rprof_processes::find_live(self.mappings, avma)?;
        // On a timeout the stack ends here, rather than at a guess.
        if !mapping.executable || !self.clock.count_lookup() {
            return None;
        }
        let until = || self.clock.until_there();
        let table = match self.tables.get(self.map, mapping, self.pid, until) {
            Ok(table) => table,
            Err(TooSlow) => {
                self.clock.end();
                return None;
            }
        };
        let bias = table.and_then(|table| table.bias(mapping.start, mapping.file_offset));
        Some(Module {
            table: table.filter(|_| bias.is_some()),
            bias: bias.unwrap_or(0),
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let mapping = rprof_processes::find_live(self.mappings, avma);
        let image = mapping.and_then(|mapping| self.map.image(mapping.backing));
        let is_of_file = image.is_some_and(|image| image.kind == ImageKind::File);
        let copied = self.memory.copy(self.pid, avma, into, is_of_file);
        copied.unwrap_or_else(|_| {
            self.clock.end();
            0
        })
    }

    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        self.tables.jit.find(ARCH?, self.pid.0, avma)
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }

    fn process(&self) -> Option<u64> {
        Some(thread(self.pid.0))
    }
}

impl CodeLookup for ProcessCode<'_> {
    /// Returns the start of a frame's function, with [`TOP`] set if the frame made no call. An
    /// interrupted function may have other callers than one that called others.
    fn function_of(&self, frame: &StackFrame) -> Option<u64> {
        let module = self.find(frame.lookup_address())?;
        let svma = frame.lookup_address().wrapping_sub(module.bias);
        let start = module.table?.function_start(svma)?;
        let start = start.wrapping_add(module.bias);
        Some(match frame.kind {
            FrameKind::Caller => start,
            FrameKind::Sampled | FrameKind::Interrupted => start | TOP,
        })
    }

    fn image_offset(&self, address: u64) -> Option<(u64, u64)> {
        let (address, top) = (address & !TOP, address & TOP);
        let mapping = rprof_processes::find_live(self.mappings, address)?;
        let offset = address.wrapping_sub(mapping.start);
        let offset = offset.wrapping_add(mapping.file_offset) | top;
        // Image numbers are reused, so use the serial.
        Some((self.map.image_serial(mapping.backing)?, offset))
    }
}
