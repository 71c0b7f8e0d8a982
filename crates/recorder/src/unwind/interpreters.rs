//! [`Interpreters`]: functions of interpreted languages on unwound stacks.
//!
//! A process is watched from the mapping of an image that may contain a runtime. Its stacks are
//! unwound with registers, and the runtime's reader finds the functions. Each function becomes an
//! address of [`INTERPRETED`](rprof_jit::INTERPRETED) on the inner side of the native frame that
//! runs it.

use std::ops::Range;
use std::time::Duration;

use rprof_interpreters::{
    CodeKind, Found, Interpreter, MemoryRead, Names, NativeFrame, ProcessMemory, Stack, Urgency,
    may_contain_runtime, runtimes_of, switches_stacks,
};
use rprof_jit::{InterpretedNames, is_jitdump, may_hold_jit_code};
use rprof_launch::procfs::Procfs;
use rprof_processes::{ImageId, LiveMap, Pid};
use rprof_records::Mapped;
use rprof_unwind::{FrameKind, Memory, Registers, StackFrame};
use rustc_hash::FxHashMap;

use super::copied_text::{CopiedText, CopiedTexts, FailedSearches};
use super::deferred_sample::MAX_FRAMES;
use super::process_memory::{ProcessMemories, fitting};
use super::tables::Tables;
use super::tally::InterpretedTally;
use super::watchers::Watchers;
use crate::mapped_files::{MappedImage, file_name};

/// Maximum number of images of a process that may contain a runtime.
const MAX_IMAGES: usize = 4;

/// Maximum number of read batches per stack.
const MAX_BATCHES: u32 = 64;

#[derive(Debug)]
pub(crate) struct Interpreters {
    names: InterpretedNames,
    watchers: Watchers,
    processes: FxHashMap<Pid, WatchedProcess>,
    /// Processes without their mapping record.
    unannounced: Vec<Pid>,
    copies: CopiedTexts,
    registers: Vec<Registers>,
    native: Vec<NativeFrame>,
    found: Found,
    used: Vec<u64>,
}

#[derive(Debug, Default)]
struct WatchedProcess {
    images: Vec<Range<u64>>,
    /// Images that switch between stacks.
    switches: Vec<Range<u64>>,
    reader: Option<Reader>,
    has_jitdump: bool,
    is_announced: bool,
    /// True if the process has another PID namespace than the samples; `None` until it is known.
    is_in_other_namespace: Option<bool>,
    failed_searches: FailedSearches,
}

#[derive(Debug)]
struct Reader {
    image: ImageId,
    /// Whether a perf map or a jitdump names generated code, once there is any.
    has_named_code: Option<bool>,
    interpreter: Box<dyn Interpreter>,
}

/// Unwound sample.
pub(super) struct UnwoundSample<'a> {
    pub(super) pid: Pid,
    pub(super) thread: u64,
    pub(super) time: u64,
    pub(super) frames: &'a [StackFrame],
    pub(super) memory: &'a dyn Memory,
    pub(super) is_complete: bool,
    /// True if the thread has slept since then.
    pub(super) is_asleep: bool,
}

/// Sources of images and memory.
pub(super) struct Sources<'a> {
    pub(super) map: &'a LiveMap,
    pub(super) tables: &'a Tables,
    pub(super) memory: &'a ProcessMemories,
}

impl Interpreters {
    pub(super) fn new(names: InterpretedNames) -> Interpreters {
        Interpreters {
            names,
            watchers: Watchers::default(),
            processes: FxHashMap::default(),
            unannounced: Vec::new(),
            copies: CopiedTexts::default(),
            registers: Vec::new(),
            native: Vec::new(),
            found: Found::default(),
            used: Vec::new(),
        }
    }

    pub(super) fn handle_mapped(&mut self, mapped: &Mapped<'_>) {
        let add = |images: &mut Vec<Range<u64>>| {
            let range = mapped.start..mapped.start.saturating_add(mapped.len);
            if images.len() < MAX_IMAGES && !images.contains(&range) {
                images.push(range);
            }
        };
        let name = file_name(&mapped.path);
        let is_candidate =
            || runtimes_of(name).next().is_some() || may_contain_runtime(name, mapped.len);
        if mapped.executable && is_candidate() {
            add(&mut self.processes.entry(Pid(mapped.pid)).or_default().images);
        } else if mapped.executable && switches_stacks(name) {
            add(&mut self.processes.entry(Pid(mapped.pid)).or_default().switches);
        } else if is_jitdump(&mapped.path)
            && let Some(process) = self.processes.get_mut(&Pid(mapped.pid))
        {
            process.has_jitdump = true;
        }
    }

    pub(super) fn handle_fork(&mut self, pid: Pid, parent: Pid) {
        self.forget(pid);
        if let Some(parent) = self.processes.get(&parent) {
            let child = WatchedProcess {
                images: parent.images.clone(),
                switches: parent.switches.clone(),
                ..WatchedProcess::default()
            };
            self.processes.insert(pid, child);
        }
    }

    pub(super) fn forget(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }

    pub(super) fn forget_thread(&mut self, pid: Pid, thread: u64) {
        let reader = self
            .processes
            .get_mut(&pid)
            .and_then(|process| process.reader.as_mut());
        if let Some(reader) = reader {
            reader.interpreter.forget_thread(thread);
        }
    }

    /// Returns the buffer for the registers of each frame if the process may run an interpreter.
    pub(super) fn watch(&mut self, pid: Pid) -> Option<&mut Vec<Registers>> {
        let is_watched = !self.processes.is_empty() && self.processes.contains_key(&pid);
        is_watched.then_some(&mut self.registers)
    }

    /// Returns a process whose range of interpreted functions must be mapped before its next
    /// sample.
    pub(super) fn take_unannounced(&mut self) -> Option<Pid> {
        self.unannounced.pop()
    }

    /// Returns copied text whose mapping must be written before its last sample.
    pub(super) fn take_copied_text(&mut self) -> Option<CopiedText> {
        self.copies.take()
    }

    /// Finds the functions of a stack that was unwound with registers. Returns how early the next
    /// samples should be read.
    pub(super) fn read(
        &mut self,
        sample: &UnwoundSample<'_>,
        sources: &Sources<'_>,
        tally: &mut InterpretedTally,
    ) -> Urgency {
        self.found.clear();
        let Some(process) = self.processes.get_mut(&sample.pid) else {
            return Urgency::None;
        };
        let has_jitdump = process.has_jitdump;
        process.find_reader(sample.pid, sources);
        let Some(reader) = &mut process.reader else {
            if process.images.is_empty() && process.switches.is_empty() {
                self.processes.remove(&sample.pid);
            }
            return Urgency::None;
        };
        self.native.clear();
        for (frame, registers) in sample.frames.iter().zip(&self.registers) {
            self.native.push(NativeFrame {
                frame: *frame,
                registers: *registers,
                code: reader.kind_of(sample.pid, frame, &process.switches, sources),
            });
        }
        let interpreter = &mut reader.interpreter;
        let is_generated = |frame: &NativeFrame| frame.code == CodeKind::Generated;
        if reader.has_named_code.is_none() && self.native.iter().any(is_generated) {
            reader.has_named_code = match has_jitdump {
                true => Some(true),
                false => sources.memory.has_perf_map(sample.pid),
            };
            if reader.has_named_code == Some(true) {
                interpreter.handle_named_code();
            }
        }
        if !self.native.iter().any(|frame| interpreter.is_own(frame)) {
            return Urgency::None;
        }
        let stack = Stack {
            thread: sample.thread,
            time: sample.time,
            frames: &self.native,
            memory: sample.memory,
            is_complete: sample.is_complete,
            is_asleep: sample.is_asleep,
        };
        let mut memory = LiveMemory {
            memory: sources.memory,
            pid: sample.pid,
            is_in_other_namespace: &mut process.is_in_other_namespace,
            batches_left: MAX_BATCHES,
            duration: Duration::ZERO,
            time: 0,
        };
        let mut names = Addresses(&self.names);
        interpreter.read(&stack, &mut memory, &mut names, &mut self.found);
        let watcher = interpreter.take_watcher();
        if let Some((watcher, memory)) = watcher.zip(sources.memory.file(sample.pid)) {
            self.watchers.add(watcher, memory);
        }
        self.watchers.handle_sample();
        if interpreter.copies_text() {
            let is_code = |index: usize, frame: &NativeFrame| {
                let is_function = self.found.frames.iter().any(|found| found.native == index);
                frame.code == CodeKind::Generated && !is_function
            };
            let mut frames = self.native.iter().enumerate();
            if let Some((_, frame)) = frames.find(|(index, frame)| is_code(*index, frame)) {
                let (avma, failed) = (frame.frame.lookup_address(), &mut process.failed_searches);
                search_copy(
                    &mut self.copies,
                    (sample.pid, avma),
                    reader.image,
                    sources,
                    failed,
                );
            }
        }
        // A record has no room for more.
        let room = MAX_FRAMES.saturating_sub(sample.frames.len());
        self.found.frames.truncate(room);
        tally.count(&self.found);
        if !self.found.frames.is_empty() {
            self.used.clear();
            (self.used).extend(self.found.frames.iter().map(|frame| frame.address));
            self.names.mark_used(sample.pid.0, &self.used);
            if !std::mem::replace(&mut process.is_announced, true) {
                self.unannounced.push(sample.pid);
            }
        }
        self.found.urgency
    }

    /// Returns true if the last [`read`](Self::read) found functions, and all of them.
    pub(super) fn found_all(&self) -> bool {
        self.found.is_interpreted() && self.found.is_complete()
    }

    /// Appends a stack with the functions found by the last [`read`](Self::read).
    pub(super) fn append(&self, frames: &[StackFrame], chain: &mut Vec<u64>) {
        let mut functions = self.found.frames.iter().peekable();
        for (index, frame) in frames.iter().enumerate() {
            let before = chain.len();
            while let Some(function) = functions.next_if(|function| function.native <= index) {
                chain.push(function.address);
            }
            // Readers look up each address behind the first one byte lower, but this is an
            // instruction and no return address.
            let is_moved = chain.len() > before && frame.kind == FrameKind::Sampled;
            chain.push(frame.address.wrapping_add(u64::from(is_moved)));
        }
    }
}

impl WatchedProcess {
    /// Creates the reader, once an image with a runtime has been opened for unwinding.
    fn find_reader(&mut self, pid: Pid, sources: &Sources<'_>) {
        if self.reader.is_none() {
            let has_no_runtime = |image: &Range<u64>| {
                let mapping = sources.map.find(pid, image.start);
                mapping.is_some_and(|mapping| sources.tables.has_no_runtime(mapping.backing))
            };
            self.images.retain(|image| !has_no_runtime(image));
            self.reader = self.images.iter().find_map(|image| {
                let mapping = sources.map.find(pid, image.start)?;
                let (runtime, table) = sources.tables.runtime(mapping.backing)?;
                let bias = table.bias(mapping.start, mapping.file_offset)?;
                Some(Reader {
                    image: mapping.backing,
                    has_named_code: None,
                    interpreter: runtime.process(bias),
                })
            });
        }
    }
}

impl Reader {
    fn kind_of(
        &self,
        pid: Pid,
        frame: &StackFrame,
        switches: &[Range<u64>],
        sources: &Sources<'_>,
    ) -> CodeKind {
        let avma = frame.lookup_address();
        let Some(mapping) = sources.map.find(pid, avma) else {
            return CodeKind::Other;
        };
        if mapping.backing == self.image {
            // An image may be mapped several times: V8 maps its builtins again, near its JIT code.
            let table = sources.tables.runtime(self.image);
            let bias = table.and_then(|(_, table)| table.bias(mapping.start, mapping.file_offset));
            return bias.map_or(CodeKind::Other, |bias| {
                CodeKind::Image(avma.wrapping_sub(bias))
            });
        }
        if switches.iter().any(|range| range.contains(&avma)) {
            return CodeKind::Switch;
        }
        let image = sources.map.image(mapping.backing);
        match image.is_some_and(|image| may_hold_jit_code(image.kind)) {
            true => CodeKind::Generated,
            false => CodeKind::Other,
        }
    }
}

/// Searches the text of a runtime's image for the code at an address.
fn search_copy(
    copies: &mut CopiedTexts,
    (pid, avma): (Pid, u64),
    image: ImageId,
    sources: &Sources<'_>,
    failed: &mut FailedSearches,
) {
    let mappings = sources.map.mappings(pid);
    let original = mappings.iter().find(|mapping| mapping.backing == image);
    let original = original.and_then(|mapping| MappedImage::mapped(sources.map, mapping, pid));
    let copy = rprof_processes::find_live(mappings, avma);
    if let Some(((copy, original), memory)) = copy.zip(original).zip(sources.memory.file(pid)) {
        copies.search(avma, copy, original, &memory, failed);
    }
}

/// Addresses of names in callchains.
struct Addresses<'a>(&'a InterpretedNames);

impl Names for Addresses<'_> {
    fn address_of(&mut self, name: &str) -> Option<u64> {
        self.0.address_of(name)
    }
}

/// Memory of a running process, with limits per stack.
struct LiveMemory<'a> {
    memory: &'a ProcessMemories,
    pid: Pid,
    is_in_other_namespace: &'a mut Option<bool>,
    batches_left: u32,
    duration: Duration,
    time: u64,
}

impl ProcessMemory for LiveMemory<'_> {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        let Some(left) = self.batches_left.checked_sub(1) else {
            return;
        };
        self.batches_left = left;
        let fits = fitting(reads);
        let batch = reads.get_mut(..fits).unwrap_or_default();
        let taken = batch.iter_mut().map(|read| MemoryRead {
            address: read.address,
            bytes: std::mem::take(&mut read.bytes),
            is_read: false,
        });
        if let Ok(Some(done)) = self.memory.read_batch(self.pid, taken.collect()) {
            (self.time, self.duration) = (done.began, done.duration);
            for (read, done) in batch.iter_mut().zip(done.reads) {
                *read = done;
            }
        }
    }

    fn duration(&self) -> Duration {
        self.duration
    }

    fn time(&self) -> u64 {
        self.time
    }

    fn number_inside(&mut self, thread: u64) -> u64 {
        let number = |id: u32| Procfs::default().status(id)?.innermost_id;
        let is_in_other_namespace = self.is_in_other_namespace.get_or_insert_with(|| {
            let pid = self.pid.0.cast_unsigned();
            number(pid).is_some_and(|inside| inside != pid)
        });
        let inside = is_in_other_namespace.then(|| number(u32::try_from(thread).ok()?));
        inside.flatten().map_or(thread, u64::from)
    }
}
