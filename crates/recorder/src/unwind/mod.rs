//! Unwinds stacks during the recording.
//!
//! ```text
//!   sideband --> LiveMap (what is mapped now) --+
//!                                               v
//!   sample: kernel callchain, user registers, stack bytes --> Unwinder --> sample: callchain
//!                                               ^
//!   images, opened while they are mapped -------+
//! ```
//!
//! Records arrive sorted by time, so the map matches each sample. Stack bytes are not written to
//! the file. If they end before the root, the sample waits for more observations: see `deep`.

mod chain;
mod clock;
mod code;
mod copied_text;
mod deep;
mod deferred_sample;
mod interpreters;
mod memory_file;
mod monotonic;
mod process_memory;
mod sleepers;
mod tables;
mod tally;
mod vfork;
mod watchers;
mod work;

pub(crate) use copied_text::CopiedText;
pub(crate) use sleepers::SleepingStack;
pub use tally::{InterpretedTally, StackCause, StackTally};

use rprof_interpreters::Urgency;
use rprof_jit::InterpretedNames;
use rprof_processes::{LiveMap, Pid, Tid};
use rprof_records::{
    Attr, ContextMarker, CpuMode, Endian, Mapped, Misc, ProcessEvent, RawRecord, RecordType,
    Sample, SampleLayout, SampleType,
};
use rprof_sampler::{Clock, EventIds, FastDrain, StackBases};
use rprof_unwind::{
    Arch, DeepStackCompleter, Memory, MissingWord, Registers, Root, StackDump, StackFrame,
    TruncationReason, UnwindOutcome, Unwinder,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backlog::Backlog;
use crate::limits::{Limit, ReachedLimits};
use crate::mapped_files::MappedImage;
use crate::pipeline::merge::Released;
use clock::SampleClock;
use code::{ARCH, ProcessCode, thread};
use deferred_sample::{Cut, DeferredSample, DeferredSamples, MAX_FRAMES};
use interpreters::{Interpreters, Sources, UnwoundSample};
use monotonic::MonotonicTimes;
use process_memory::{ProcessMemories, StackLink};
use tables::Tables;
use vfork::VforkChildren;

/// Unwinds samples against the process map at their time.
#[derive(Debug)]
pub(crate) struct Unwinding {
    layouts: Vec<Layout>,
    /// Mask of user registers that samples keep.
    kept_registers: u64,
    monotonic: MonotonicTimes,
    /// Index in `layouts` by event id, the first word of a sample.
    by_id: FxHashMap<u64, usize>,
    /// Ids of the events whose samples have no stack copy.
    others: FxHashSet<u64>,
    /// Bytes of dropped samples.
    damaged_bytes: u64,
    arch: Arch,
    unwinder: Unwinder,
    map: LiveMap,
    tables: Tables,
    clock: SampleClock,
    /// Processes that executed a program during the recording.
    begun: FxHashSet<Pid>,
    vfork_children: VforkChildren,
    memory: ProcessMemories,
    completer: DeepStackCompleter,
    /// Samples that wait for outer frames, in order.
    deferred: DeferredSamples,
    /// By thread, the last dump end with a read of the page after it.
    filled: FxHashMap<u64, u64>,
    bases: StackBases,
    fast_drain: FastDrain,
    interpreters: Interpreters,
    tally: StackTally,
    frames: Vec<StackFrame>,
    chain: Vec<u64>,
    callers: Vec<u64>,
    values: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Layout {
    taken: SampleLayout,
    unwound: SampleLayout,
    registers: u64,
    stack: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordAction {
    Keep,
    Replace,
    /// Write another record instead, once it is
    /// [settled](crate::pipeline::deferred::Settle::settle).
    Defer,
    /// Write nothing: the record is damaged. Its bytes are counted.
    Drop,
}

impl Unwinding {
    /// Creates the unwinder for samples of these events, with times of `clock`. Samples keep the
    /// user registers in `kept_registers`, and tables use at most `memory` bytes. Returns `None` if
    /// no event has user registers and stack, or if the architecture is unsupported.
    pub(crate) fn new(
        events: &[EventIds],
        bases: &StackBases,
        fast_drain: &FastDrain,
        backlog: &Backlog,
        kept_registers: u64,
        clock: Clock,
        memory: usize,
    ) -> Option<Unwinding> {
        let (mut layouts, mut by_id) = (Vec::new(), FxHashMap::default());
        let mut others = FxHashSet::default();
        for event in events {
            if !is_to_unwind(&event.attr) {
                others.extend(event.ids.iter().copied());
            } else {
                by_id.extend(event.ids.iter().map(|id| (*id, layouts.len())));
                layouts.push(Layout {
                    taken: SampleLayout::new(&event.attr, Endian::NATIVE),
                    unwound: SampleLayout::new(&event.attr.unwound(kept_registers), Endian::NATIVE),
                    registers: event.attr.sample_regs_user,
                    stack: event.attr.sample_stack_user,
                });
            }
        }
        if layouts.is_empty() {
            return None;
        }
        let arch = ARCH?;
        Some(Unwinding {
            layouts,
            kept_registers,
            monotonic: MonotonicTimes::new(clock),
            by_id,
            others,
            damaged_bytes: 0,
            arch,
            unwinder: Unwinder::new(arch),
            map: LiveMap::new(),
            tables: Tables::new(memory, backlog.boosted().clone()),
            clock: SampleClock::new(backlog.clone()),
            begun: FxHashSet::default(),
            vfork_children: VforkChildren::default(),
            memory: ProcessMemories::new(backlog.clone()),
            completer: DeepStackCompleter::new(),
            deferred: DeferredSamples::new(),
            filled: FxHashMap::default(),
            bases: bases.clone(),
            fast_drain: fast_drain.clone(),
            interpreters: Interpreters::new(InterpretedNames::default()),
            tally: StackTally::default(),
            frames: Vec::new(),
            chain: Vec::new(),
            callers: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Shares the names of interpreted functions.
    pub(crate) fn with_names(mut self, names: &InterpretedNames) -> Unwinding {
        self.interpreters = Interpreters::new(names.clone());
        self
    }

    pub(crate) fn into_tally(self) -> StackTally {
        self.tally
    }

    /// Returns the bytes of samples that were dropped, because their event or layout is unknown.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    pub(crate) fn take_sampled(&mut self) -> Vec<MappedImage> {
        self.tables.take_sampled()
    }

    pub(crate) fn limits(&self) -> ReachedLimits {
        let mut limits = self.tables.limits();
        limits.add(Limit::Mappings, self.map.refused());
        limits.add(Limit::Images, self.map.refused_images());
        limits.add(Limit::SlowStacks, self.clock.cut_short());
        limits.add(Limit::Jitdumps, self.tables.jit.put_off());
        limits.add(Limit::ProcessMemory, self.memory.refused());
        limits.add(Limit::JitdumpTime, self.tables.jit.unanswered());
        limits.add(Limit::TruncatedImages, self.tally.without_name);
        limits
    }

    /// Handles the next record; `event` is its decoded form for a process event. A replacement is
    /// in `unwound`.
    pub(crate) fn handle(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        unwound: &mut Vec<u8>,
    ) -> RecordAction {
        if let Some(event) = event {
            self.handle_event(event);
            return RecordAction::Keep;
        }
        match released.raw() {
            Some(raw) if raw.kind == RecordType::SAMPLE => self.rewrite(&raw, unwound),
            _ => RecordAction::Keep,
        }
    }

    /// Follows a process event.
    pub(crate) fn handle_event(&mut self, event: &ProcessEvent<'_>) {
        let process_ended = self.map.handle(event);
        self.tables.forget(&self.map.take_forgotten());
        match event {
            ProcessEvent::Executed { pid, tid, .. } => {
                let (pid, tid) = (Pid(*pid), Tid(*tid));
                self.memory.forget(pid);
                self.forget(tid);
                self.tables.jit.forget(pid.0);
                self.interpreters.forget(pid);
                self.begun.insert(pid);
                self.vfork_children.forget(pid);
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } => {
                if pid == tid {
                    // The EXIT of an earlier process may have been lost.
                    self.memory.forget(Pid(*pid));
                    self.vfork_children.handle_fork(Pid(*pid));
                    self.interpreters.handle_fork(Pid(*pid), Pid(*parent_pid));
                }
                self.tables.jit.handle_fork(*pid, *parent_pid);
            }
            ProcessEvent::Ended { pid, tid } => {
                let (pid, tid) = (Pid(*pid), Tid(*tid));
                self.interpreters.forget_thread(pid, thread(tid.0));
                if process_ended {
                    self.tables.jit.forget(pid.0);
                    self.interpreters.forget(pid);
                    self.begun.remove(&pid);
                    self.vfork_children.forget(pid);
                    // Only with the last thread, because opening it again takes longer than reading
                    // a stack.
                    self.memory.forget(pid);
                }
                self.forget(tid);
            }
            ProcessEvent::Mapped(mapped) if !mapped.kernel => self.handle_mapped(mapped),
            _ => {}
        }
    }

    fn handle_mapped(&mut self, mapped: &Mapped<'_>) {
        let pid = Pid(mapped.pid);
        if mapped.executable {
            self.tables.jit.handle_mapped(mapped.pid, &mapped.path);
            self.interpreters.handle_mapped(mapped);
        }
        if self.begun.contains(&pid)
            && let Some(mapping) = self.map.find(pid, mapped.start)
        {
            self.tables.mapped(&self.map, mapping, pid);
        }
    }

    fn forget(&mut self, tid: Tid) {
        self.filled.remove(&thread(tid.0));
        self.settle_thread(thread(tid.0));
        self.bases.forget(tid.0.cast_unsigned());
    }

    /// Unwinds a sample and encodes it into `out`, replacing the contents. Keeps samples of events
    /// without stacks.
    ///
    /// Drops damaged samples. The file describes neither their event nor their stack copy, and perf
    /// stops at such a record: "failed to process type: 9 [Bad address]".
    fn rewrite(&mut self, raw: &RawRecord<'_>, out: &mut Vec<u8>) -> RecordAction {
        out.clear();
        let id = raw.body.u64(0, Endian::NATIVE).unwrap_or(0);
        let Some(place) = self.by_id.get(&id).copied() else {
            return match self.others.contains(&id) {
                true => RecordAction::Keep,
                false => self.drop_damaged(raw),
            };
        };
        // Cloned because the sample borrows it while `self` changes.
        let layout = self.layouts[place].taken.clone();
        let Ok(sample) = Sample::parse(raw.body, &layout) else {
            return self.drop_damaged(raw);
        };
        let (misc, deferred) = self.unwind(&sample, raw.misc, place);
        let kept = self.kept_registers;
        if sample.put_unwound(misc, &self.chain, kept, out).is_err() {
            // Other fields leave less space than usual. The original record would not fit its
            // event's layout.
            self.chain.truncate(MAX_BESIDE_LARGE_FIELDS);
            let misc = chain::truncated(misc);
            return match sample.put_unwound(misc, &self.chain, kept, out) {
                Ok(()) => RecordAction::Replace,
                Err(_) => self.drop_damaged(raw),
            };
        }
        let Some(deferred) = deferred else {
            return RecordAction::Replace;
        };
        self.deferred.push_back(deferred);
        RecordAction::Defer
    }

    fn drop_damaged(&mut self, raw: &RawRecord<'_>) -> RecordAction {
        self.damaged_bytes += raw.size() as u64;
        RecordAction::Drop
    }

    /// Builds the sample's callchain. Returns the record's new misc bits, and the sample if it is
    /// deferred.
    fn unwind(
        &mut self,
        sample: &Sample<'_>,
        misc: Misc,
        layout: usize,
    ) -> (Misc, Option<DeferredSample>) {
        chain::kernel_part(sample, &mut self.chain);
        let Some(registers) = sample.regs_user().filter(|r| r.abi != 0) else {
            self.tally.kernel_only += 1;
            return (misc, None);
        };
        self.values.clear();
        self.values.extend(registers.iter().map(|(_, value)| value));
        let mask = self.layouts[layout].registers;
        let arch = self.arch.of_sample(registers.abi);
        let whole = arch.and_then(|arch| Registers::from_perf(arch, mask, &self.values));
        let Some(whole) = whole else {
            // 32-bit ARM. Only the sample's own address is usable, in user mode.
            self.tally.count(None, Some(StackCause::Compat), None);
            chain::append_ip_only(sample, misc, &mut self.chain);
            return (chain::truncated(misc), None);
        };
        let pid = Pid(sample.pid().unwrap_or(-1));
        let bytes = sample.stack_user().map(|dump| dump.bytes.to_cow());
        let bytes = bytes.as_deref().unwrap_or(&[]);
        if bytes.is_empty() && misc.cpu_mode() == CpuMode::Kernel {
            // An exec or exit has just removed the stack, so there is no user side.
            self.tally.kernel_only += 1;
            return (misc, None);
        }
        if misc.cpu_mode() == CpuMode::Kernel
            && (self.vfork_children).shares_stack(pid, &whole, &self.chain)
        {
            // Nor is there one that belongs to this moment.
            self.tally.kernel_only += 1;
            return (misc, None);
        }
        let mut callers = std::mem::take(&mut self.callers);
        chain::callers(sample, &mut callers);
        let dump = StackDump::new(whole.sp(), bytes);
        let dump = match whole.frame_pointer() {
            Some(fp) => dump.with_frame_pointer_chain(fp, &callers),
            None => dump,
        };
        let unwound = self.unwind_dump(sample, misc, layout, (pid, &whole, &dump));
        self.callers = callers;
        unwound
    }

    fn unwind_dump(
        &mut self,
        sample: &Sample<'_>,
        misc: Misc,
        layout: usize,
        (pid, whole, dump): (Pid, &Registers, &StackDump<'_>),
    ) -> (Misc, Option<DeferredSample>) {
        self.tables.begin_sample(&self.map);
        self.clock.begin_sample(pid);
        let time = sample.time().map(|time| self.monotonic.of(time));
        self.tables.jit.set_time(time.unwrap_or(0));
        self.memory.at(time.unwrap_or(u64::MAX));
        let code = ProcessCode::new(pid, &self.map, &self.tables, &self.memory, &self.clock);
        let frames = &mut self.frames;
        let registers = self.interpreters.watch(pid);
        let is_watched = registers.is_some();
        let mut end = match registers {
            None => (self.unwinder).unwind(whole, dump, &code, MAX_FRAMES, frames),
            Some(kept) => {
                (self.unwinder).unwind_with_registers(whole, dump, &code, MAX_FRAMES, frames, kept)
            }
        };
        if let UnwindOutcome::Truncated(TruncationReason::OtherStack { missing, .. }) = end
            && let MissingWord::Link(address) = missing
            && let Some(link) = StackLink::read(dump, address, &self.memory, pid)
        {
            end = (self.unwinder).unwind(whole, &link, &code, MAX_FRAMES, frames);
        }
        let is_cut_short = self.clock.is_over();
        learn_base(&self.bases, sample, end, frames);
        let thread = thread(sample.tid().unwrap_or(-1));
        let time = time.unwrap_or(0);
        match is_watched {
            false => chain::append_frames(&self.frames, &mut self.chain),
            true => self.append_with_functions(pid, thread, time, dump, end.is_complete()),
        }
        let held = match end {
            UnwindOutcome::Complete(root) => {
                // Frames of another stack have no slot to match cut points.
                if self.frames.iter().all(|frame| frame.sp != 0) {
                    self.saw_all(pid, thread, time, root);
                }
                None
            }
            UnwindOutcome::Truncated(_) if is_cut_short => None,
            UnwindOutcome::Truncated(cause) => match cause {
                TruncationReason::StackEnded { address: slot }
                | TruncationReason::BadMemory { address: slot }
                | TruncationReason::OtherStack {
                    missing: MissingWord::ReturnAddress(slot),
                    ..
                } => {
                    let cut = Cut {
                        pid,
                        thread,
                        time,
                        slot,
                    };
                    self.hold(&cut, cause, layout, whole, dump)
                }
                _ => None,
            },
        };
        let outermost = self.frames.last().map(StackFrame::lookup_address);
        let mapping = outermost.and_then(|address| self.map.find(pid, address));
        let image = mapping.map(|mapping| mapping.backing);
        let held = held.map(|held| held.in_image(image));
        self.clock.end_sample();
        if held.is_none() {
            let unopened = image.and_then(|image| self.tables.why_unopened(image));
            let image = image.and_then(|image| self.map.image(image));
            match (end, is_cut_short) {
                (UnwindOutcome::Truncated(_), true) => {
                    self.tally.count(None, Some(StackCause::TooSlow), image);
                }
                (UnwindOutcome::Truncated(TruncationReason::NoUnwindInfo { .. }), _)
                    if unopened.is_some() =>
                {
                    self.tally.count(None, unopened, image);
                }
                (UnwindOutcome::Truncated(TruncationReason::NotMapped { .. }), _)
                    if self.map.mappings(pid).is_empty() =>
                {
                    self.tally.count(None, Some(StackCause::NoMappings), image);
                }
                _ => self.tally.count_outcome(end, image),
            }
        }
        match end.is_complete() {
            true => (misc, None),
            false => (chain::truncated(misc), held),
        }
    }
}

impl Unwinding {
    /// Appends the stack of a process that may run an interpreter, with its functions.
    fn append_with_functions(
        &mut self,
        pid: Pid,
        thread: u64,
        time: u64,
        memory: &dyn Memory,
        is_complete: bool,
    ) {
        let sample = UnwoundSample {
            pid,
            thread,
            time,
            frames: &self.frames,
            memory,
            is_complete,
            is_asleep: false,
        };
        let sources = Sources {
            map: &self.map,
            tables: &self.tables,
            memory: &self.memory,
        };
        let tally = &mut self.tally.interpreted;
        let urgency = self.interpreters.read(&sample, &sources, tally);
        let until = |duration: u64| rprof_sampler::monotonic_ns().saturating_add(duration);
        match urgency {
            Urgency::None => {}
            Urgency::Relaxed => self.fast_drain.request_relaxed_until(until(RELAXED_DRAIN)),
            Urgency::High => self.fast_drain.request_until(until(INTERPRETED_DRAIN)),
        }
        self.chain.push(ContextMarker::USER.0);
        self.interpreters.append(&self.frames, &mut self.chain);
    }

    /// Returns a process whose range of interpreted functions must be mapped before its last
    /// sample.
    pub(crate) fn take_unannounced(&mut self) -> Option<Pid> {
        self.interpreters.take_unannounced()
    }

    /// Returns copied text whose mapping must be [handled](Self::handle_event) and written before its
    /// last sample.
    pub(crate) fn take_copied_text(&mut self) -> Option<CopiedText> {
        self.interpreters.take_copied_text()
    }
}

/// Nanoseconds of fast draining after a stack whose callers are in memory that changes.
const INTERPRETED_DRAIN: u64 = 100_000_000;

/// The same if most callers are known from earlier stacks.
const RELAXED_DRAIN: u64 = 1_000_000_000;

/// Maximum entries of a callchain if all would make the record too large.
const MAX_BESIDE_LARGE_FIELDS: usize = 512;

/// Margin in bytes above the outermost frame's stack pointer that is still forwarded, although no
/// observed stack needed it.
const ABOVE_OUTERMOST: u64 = 256;

/// Stores the base of a thread's stack if it is certain: drain threads forward no bytes above it.
fn learn_base(bases: &StackBases, sample: &Sample<'_>, end: UnwindOutcome, frames: &[StackFrame]) {
    let outermost = frames.last().filter(|frame| frame.sp != 0);
    let (Some(tid), Some(outermost)) = (sample.tid().map(i32::cast_unsigned), outermost) else {
        return;
    };
    match end {
        // Other roots may belong to a nested stack inside the thread's.
        UnwindOutcome::Complete(
            Root::UndefinedReturnAddress | Root::EntryPoint | Root::ExitFollows,
        ) => {
            bases.set(tid, outermost.sp.saturating_add(ABOVE_OUTERMOST));
        }
        // The base was wrong, and the copy was too short.
        UnwindOutcome::Truncated(TruncationReason::StackEnded { address })
            if bases
                .get(tid)
                .is_some_and(|top| address.saturating_add(8) > top) =>
        {
            bases.disable(tid);
        }
        UnwindOutcome::Truncated(TruncationReason::MissingRegister { .. }) => bases.disable(tid),
        _ => {}
    }
}

/// Returns true if samples of this event have user registers and stack.
pub(crate) fn is_to_unwind(attr: &Attr) -> bool {
    (attr.sample_type).contains(SampleType::REGS_USER | SampleType::STACK_USER)
}
