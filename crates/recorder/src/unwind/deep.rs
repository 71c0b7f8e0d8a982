//! Completes stacks that are deeper than their dump.
//!
//! A sample with a dump that ends before the root is deferred, with all records after it. It waits
//! until its callers are observed at another time, or nothing more can be learned
//! ([`rprof_unwind::DeepStackCompleter`] has the rule). One kind of observation is a stack of the
//! thread that reaches the root. The other, for large dumps, is process memory, if the outermost
//! frames of the dump are still in it. Fast draining makes that likely.
//!
//! Two kinds of dumps end early although the stack is not deep. One ends at a *hole*, an untouched
//! page inside a large array: the kernel's copy does not fault pages in. Reading the page maps the
//! shared zero page, so later dumps reach across it. Earlier short ones stay truncated. The other
//! kind is a dump of a signal handler's own stack (`sigaltstack`): the interrupted frames are on
//! another one.

use rprof_processes::Pid;
use rprof_records::{Endian, Misc, RawBytes, RawRecord, Sample};
use rprof_unwind::{
    CodeLookup, Completion, CutPoint, FrameKind, Memory, Registers, StackDump, StackFrame,
    StackObservation, TruncationReason, UnwindOutcome,
};
use rustc_hash::FxHashSet;

use super::Unwinding;
use super::code::ProcessCode;
use super::deferred_sample::{Cut, DeferredSample, MAX_FRAMES, Witnesses};
use super::process_memory::{PAGE, StackMemory};
use crate::pipeline::deferred::Settle;

/// Nanoseconds of fast draining after a deep stack.
const FAST_DRAIN: u64 = 1_000_000_000;

/// Maximum number of cut points rechecked in one round.
const MAX_LOOKS: usize = 64;

/// Minimum `sample_stack_user` for reading process memory beyond the dump. With shorter dumps,
/// programs with known stacks gave wrong results: callers near the leaf change all the time.
pub(super) const LARGE: u32 = 32 << 10;

struct DueLook {
    pid: Pid,
    thread: u64,
    cut_point: CutPoint,
    witnesses: Witnesses,
}

impl Unwinding {
    /// Observes a complete stack, which may complete others of the thread.
    pub(super) fn saw_all(&mut self, pid: Pid, thread: u64, time: u64, root: rprof_unwind::Root) {
        let code = ProcessCode::new(pid, &self.map, &self.tables, &self.memory, &self.clock);
        let sighting = StackObservation {
            frames: &self.frames,
            observed_from: 0,
            root,
            begun: time,
            time,
        };
        self.completer.observe(thread, sighting, &code);
    }

    /// Registers a stack with a truncated dump. If dumps are [`LARGE`], also reads process memory.
    /// Returns `None` if nothing more can be learned about it.
    pub(super) fn hold(
        &mut self,
        cut: &Cut,
        cause: TruncationReason,
        layout: usize,
        registers: &Registers,
        dump: &StackDump<'_>,
    ) -> Option<DeferredSample> {
        let asked = self.layouts[layout].stack;
        if self.fill_hole(cut, dump, asked)
            && dump.end().saturating_sub(dump.start()) < LARGE.into()
        {
            return None;
        }
        let code = ProcessCode::new(cut.pid, &self.map, &self.tables, &self.memory, &self.clock);
        let last = self.frames.last()?;
        let cut_point = CutPoint {
            slot: cut.slot,
            function: code.function_of(last)?,
        };
        self.completer
            .register_cut(cut.thread, cut_point, &self.frames, cut.time, &code);
        let witnesses = Witnesses::of(registers.arch(), &self.frames, dump);
        let mut cause = cause;
        if asked >= LARGE {
            self.fast_drain
                .request_until(rprof_sampler::monotonic_ns().saturating_add(FAST_DRAIN));
            if self.look(cut, cut_point, registers, dump, (&witnesses, cause)) {
                cause = TruncationReason::TooDeep;
            }
        }
        Some(DeferredSample {
            pid: cut.pid,
            thread: cut.thread,
            cut_point,
            time: cut.time,
            layout,
            frames: self.frames.len(),
            cause,
            witnesses,
            image: None,
            settled: None,
        })
    }

    /// Reads the pages after a dump that ended early, so that the kernel finds them the next time.
    /// Tries each dump end of a thread once: after that it is the end of the mapping. Returns true
    /// if the dump ended early.
    fn fill_hole(&mut self, cut: &Cut, dump: &StackDump<'_>, asked: u32) -> bool {
        let (end, full) = (dump.end(), dump.start().saturating_add(asked.into()));
        let is_hole = (end..full).contains(&cut.slot);
        if !is_hole || self.filled.insert(cut.thread, end) == Some(end) {
            return is_hole;
        }
        if let Some(memory) = self.memory.stack(cut.pid) {
            let pages = (end..cut.slot).step_by(PAGE);
            memory.prefetch(pages.chain(std::iter::once(cut.slot)));
        }
        true
    }

    /// Unwinds the stack beyond the cut in process memory. Returns true if the stack exceeds a
    /// record, so that no observation helps.
    fn look(
        &mut self,
        cut: &Cut,
        cut_point: CutPoint,
        registers: &Registers,
        dump: &StackDump<'_>,
        (witnesses, cause): (&Witnesses, TruncationReason),
    ) -> bool {
        let Some(memory) = self.memory.stack(cut.pid) else {
            return false;
        };
        let begun = rprof_sampler::monotonic_ns();
        let callers = self.completer.callers_at(cut.thread, cut_point);
        match callers.and_then(|callers| are_in(&memory, callers, witnesses)) {
            Some(stand) if !stand || witnesses.stand_in(&memory) => {
                let now = rprof_sampler::monotonic_ns();
                self.completer
                    .recheck(cut.thread, cut_point, stand, begun, now);
                if stand {
                    return false;
                }
            }
            Some(_) => return false,
            None => memory.prefetch(witnesses.slots().chain(memory.pages_from(cut.slot))),
        }
        if !witnesses.stand_in(&memory) {
            return false;
        }
        let is_interrupted = |frame: &StackFrame| frame.kind == FrameKind::Interrupted;
        let both = DumpAndMemory {
            dump,
            memory: &memory,
            has_other_stack: matches!(cause, TruncationReason::OtherStack { .. })
                || self.frames.iter().any(is_interrupted),
        };
        self.read_on(cut, registers, &both, begun)
    }

    /// Rechecks in process memory whether callers of deferred samples are still in place. Reads a
    /// process's pages together: its stacks share most pages, and the hand-over to the reading
    /// thread costs as much as a read.
    fn look_again(&mut self) {
        let now = rprof_sampler::monotonic_ns();
        let mut due: Vec<DueLook> = Vec::new();
        let mut known = FxHashSet::default();
        for held in &self.deferred {
            let is_new = held.settled.is_none() && self.layouts[held.layout].stack >= LARGE;
            if is_new
                && self
                    .completer
                    .wants_recheck(held.thread, held.cut_point, now)
                && known.insert((held.thread, held.cut_point))
            {
                due.push(DueLook {
                    pid: held.pid,
                    thread: held.thread,
                    cut_point: held.cut_point,
                    witnesses: held.witnesses,
                });
            }
            if due.len() == MAX_LOOKS {
                break;
            }
        }
        due.sort_by_key(|look| look.pid);
        for looks in due.chunk_by(|one, other| one.pid == other.pid) {
            self.recheck(looks);
        }
    }

    fn recheck(&mut self, looks: &[DueLook]) {
        let memory = looks.first().and_then(|look| self.memory.stacks(look.pid));
        let Some(memory) = memory else {
            return;
        };
        let begun = rprof_sampler::monotonic_ns();
        let slots = looks.iter().flat_map(|look| {
            let callers = self.completer.callers_at(look.thread, look.cut_point);
            slots_of(callers.unwrap_or_default(), &look.witnesses)
        });
        memory.prefetch(slots);
        for look in looks {
            let (thread, cut_point) = (look.thread, look.cut_point);
            let Some(callers) = self.completer.callers_at(thread, cut_point) else {
                continue;
            };
            if let Some(stand) = are_in(&memory, callers, &look.witnesses)
                && (!stand || look.witnesses.stand_in(&memory))
            {
                let now = rprof_sampler::monotonic_ns();
                self.completer.recheck(thread, cut_point, stand, begun, now);
            }
        }
    }

    /// Continues unwinding from the dump into process memory. Returns true if the stack exceeds a
    /// record.
    fn read_on(
        &mut self,
        cut: &Cut,
        registers: &Registers,
        both: &DumpAndMemory<'_>,
        begun: u64,
    ) -> bool {
        let code = ProcessCode::new(cut.pid, &self.map, &self.tables, &self.memory, &self.clock);
        let mut frames = Vec::new();
        let end = (self.unwinder).unwind(registers, both, &code, MAX_FRAMES, &mut frames);
        let from = self.frames.len();
        // A stack without a root is not trustworthy.
        if let (UnwindOutcome::Complete(root), true) = (end, frames.starts_with(&self.frames))
            && let Some(caller) = frames.get(from)
            && (self.frames.last())
                .is_some_and(|callee| self.unwinder.may_call(caller, callee, &code))
        {
            let sighting = StackObservation {
                frames: &frames,
                observed_from: from,
                root,
                begun,
                time: rprof_sampler::monotonic_ns(),
            };
            self.completer.observe(cut.thread, sighting, &code);
        }
        matches!(end, UnwindOutcome::Truncated(TruncationReason::TooDeep))
            && frames.starts_with(&self.frames)
    }

    /// Settles the deferred samples of a thread that exits or executes another program.
    pub(super) fn settle_thread(&mut self, thread: u64) {
        for held in &mut self.deferred {
            if held.thread == thread && held.settled.is_none() {
                held.settled = Some(
                    match self
                        .completer
                        .complete(thread, held.cut_point, held.time, u64::MAX)
                    {
                        Completion::Callers(callers, _) => Some(addresses(callers)),
                        Completion::Pending | Completion::Unknown => None,
                    },
                );
            }
        }
        self.completer.forget(thread);
    }

    /// Appends callers to the callchain of a record. Returns false if they do not fit.
    fn append(&mut self, layout: usize, callers: &[u64], record: &mut Vec<u8>) -> bool {
        let layout = &self.layouts[layout].unwound;
        let Some(raw) = RawRecord::parse(RawBytes::from(record.as_slice()), Endian::NATIVE) else {
            return false;
        };
        let Ok(sample) = Sample::parse(raw.body, layout) else {
            return false;
        };
        self.chain.clear();
        self.chain.extend(
            sample
                .callchain()
                .into_iter()
                .flat_map(|chain| chain.iter()),
        );
        self.chain.extend_from_slice(callers);
        let misc = Misc(raw.misc.0 & !Misc::TRUNCATED_STACK.0);
        let mut out = Vec::new();
        let fits = sample
            .put_unwound(misc, &self.chain, self.kept_registers, &mut out)
            .is_ok();
        if fits {
            *record = out;
        }
        fits
    }
}

impl Settle for Unwinding {
    fn begin_round(&mut self) {
        self.look_again();
    }

    fn settle(&mut self, now: u64, may_wait: bool, record: &mut Vec<u8>) -> bool {
        // The maximum means the end in any clock.
        let now = match now {
            u64::MAX => u64::MAX,
            now => self.monotonic.of(now),
        };
        let Some(held) = self.deferred.front_mut() else {
            return true;
        };
        let outer = match held.settled.take() {
            Some(settled) => settled,
            None => match (self.completer).complete(held.thread, held.cut_point, held.time, now) {
                Completion::Pending if may_wait => return false,
                Completion::Pending => None,
                Completion::Callers(callers, _) => Some(addresses(callers)),
                Completion::Unknown => None,
            },
        };
        let Some(held) = self.deferred.pop_front() else {
            return true;
        };
        let most = MAX_FRAMES.saturating_sub(held.frames);
        let outer = outer.filter(|callers| callers.len() <= most);
        let is_completed = outer.is_some_and(|callers| self.append(held.layout, &callers, record));
        let image = held.image.and_then(|image| self.map.image(image));
        match is_completed {
            true => self.tally.count_completed(),
            false => (self.tally).count_outcome(UnwindOutcome::Truncated(held.cause), image),
        }
        true
    }
}

fn addresses(callers: &[StackFrame]) -> Vec<u64> {
    callers.iter().map(|frame| frame.address).collect()
}

/// Returns the stack slots of frames' return addresses and of the witnesses.
fn slots_of<'a>(
    frames: &'a [StackFrame],
    witnesses: &'a Witnesses,
) -> impl Iterator<Item = u64> + 'a {
    let slots = frames.iter().map(|frame| frame.slot);
    slots.filter(|slot| *slot != 0).chain(witnesses.slots())
}

/// Returns whether frames' return addresses are in memory; `None` if it is unreadable. Reads the
/// witnesses' pages in the same call.
fn are_in(memory: &StackMemory, frames: &[StackFrame], witnesses: &Witnesses) -> Option<bool> {
    memory.prefetch(slots_of(frames, witnesses));
    let mut all = frames.iter().filter(|frame| frame.slot != 0);
    all.try_fold(true, |stand, frame| {
        Some(stand && witnesses.arch().read_word(memory, frame.slot)? == frame.address)
    })
}

/// The stack dump, continued by process memory.
struct DumpAndMemory<'a> {
    dump: &'a StackDump<'a>,
    memory: &'a StackMemory,
    /// True if callers may be on another stack, for example interrupted by a signal. It may be
    /// below the dump.
    has_other_stack: bool,
}

/// Bytes below a dump that belong to the same stack, where popped frames are overwritten.
const BELOW: u64 = 4 << 10;

impl DumpAndMemory<'_> {
    /// Returns true if a word outside the dump is to be read from process memory.
    fn is_in_memory(&self, avma: u64) -> bool {
        let is_below = self.has_other_stack && avma < self.dump.start().saturating_sub(BELOW);
        avma >= self.dump.end() || is_below
    }
}

impl Memory for DumpAndMemory<'_> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let known = self.dump.read_u64(avma);
        known.or_else(|| (self.is_in_memory(avma)).then(|| self.memory.read_u64(avma))?)
    }

    fn read_u32(&self, avma: u64) -> Option<u32> {
        let known = self.dump.read_u32(avma);
        known.or_else(|| (self.is_in_memory(avma)).then(|| self.memory.read_u32(avma))?)
    }

    fn frame_pointer_chain(&self) -> Option<(u64, &[u64])> {
        self.dump.frame_pointer_chain()
    }
}
