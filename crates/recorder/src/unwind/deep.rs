//! Stacks that are deeper than what is copied of them.
//!
//! A sample whose copy ends before the root is held, and with it all records behind it, until
//! what is seen of its thread's stack tells who its callers were, or that nobody will: see
//! [`rprof_unwind::DeepStackCompleter`] for when that is believed. Seen are the thread's other
//! stacks, where their copies did reach the root; and, where copies are large, the memory of its process,
//! read when its samples come in. Those come soon after they were taken: drain threads drain fast
//! while there are deep stacks.

use std::collections::VecDeque;

use rprof_processes::Pid;
use rprof_records::{Endian, Misc, RawBytes, RawRecord, Sample};
use rprof_unwind::{
    CodeLookup, Completion, CutPoint, Frame, Memory, Modules, Registers, StackDump,
    StackObservation, TruncationReason, UnwindOutcome,
};

use super::process_memory::StackMemory;
use super::{Code, MOST_FRAMES, Unwinding};
use crate::pipeline::deferred::Settle;

/// Frames next to the end of a dump whose return addresses must stand in the process's memory
/// as they do in the dump.
const WITNESSES: usize = 2;

/// Nanoseconds of fast draining after a deep stack.
const FAST_DRAIN: u64 = 1_000_000_000;

/// Places that are looked at again at once.
const MOST_LOOKS: usize = 32;

/// Bytes asked for of each stack from which on what lies outside of them is looked for in the process's memory.
/// Programs whose true stacks are known show wrong ones where copies are short: callers near the leaf
/// change all the time.
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

/// A sample that waits for the rest of its stack.
#[derive(Debug)]
pub(super) struct DeferredSample {
    pid: Pid,
    thread: u64,
    cut_point: CutPoint,
    time: u64,
    /// Which event's.
    layout: usize,
    /// Number of its frames so far.
    frames: usize,
    cause: TruncationReason,
    /// Number of the outermost frame's image.
    image: Option<usize>,
    /// What was found, once its thread is gone.
    settled: Option<Option<Vec<u64>>>,
}

/// Samples that wait, in the order of the records.
pub(super) type DeferredSamples = VecDeque<DeferredSample>;

impl Unwinding {
    /// The stack was complete: it tells of others of the thread.
    pub(super) fn saw_all(&mut self, pid: Pid, thread: u64, time: u64, root: rprof_unwind::Root) {
        let code = Code::new(pid, &self.map, &self.tables, &self.memory);
        let sighting = StackObservation {
            frames: &self.frames,
            observed_from: 0,
            root,
            time,
        };
        self.completer.observe(thread, sighting, &code);
    }

    /// The dump ended before the root: looks into the process's memory, if that is to be done for this
    /// event, and takes note. `None` if nothing will ever tell more.
    pub(super) fn hold(
        &mut self,
        cut: &Cut,
        cause: TruncationReason,
        layout: usize,
        registers: &Registers,
        dump: &StackDump<'_>,
    ) -> Option<DeferredSample> {
        let code = Code::new(cut.pid, &self.map, &self.tables, &self.memory);
        let last = self.frames.last()?;
        let cut_point = CutPoint {
            slot: cut.slot,
            function: code.function_of(last)?,
        };
        self.completer
            .register_cut(cut.thread, cut_point, cut.time, &code);
        if self.layouts[layout].stack >= LARGE {
            self.fast_drain
                .request_until(rprof_sampler::monotonic_ns().saturating_add(FAST_DRAIN));
            self.look(cut, cut_point, registers, dump);
        }
        Some(DeferredSample {
            pid: cut.pid,
            thread: cut.thread,
            cut_point,
            time: cut.time,
            layout,
            frames: self.frames.len(),
            cause,
            image: None,
            settled: None,
        })
    }

    /// Looks into the process's memory.
    fn look(
        &mut self,
        cut: &Cut,
        cut_point: CutPoint,
        registers: &Registers,
        dump: &StackDump<'_>,
    ) {
        let Some(memory) = self.memory.stack(cut.pid) else {
            return;
        };
        let callers = self.completer.callers_at(cut.thread, cut_point);
        if let Some(stand) = callers.map(|callers| are_in(&memory, callers)) {
            let now = rprof_sampler::monotonic_ns();
            self.completer.recheck(cut.thread, cut_point, stand, now);
            if stand {
                return;
            }
        }
        let mut slots = (self.frames.iter().rev().map(|frame| frame.slot))
            .filter(|slot| *slot != 0)
            .take(WITNESSES)
            .peekable();
        let stands = |slot| memory.read_u64(slot) == dump.read_u64(slot);
        if slots.peek().is_some() && slots.all(stands) {
            self.read_on(cut, cut_point, registers, &Both(dump, &memory));
        }
    }

    /// Looks once more where the samples that wait were cut: what stands there now tells whether it
    /// stays.
    fn look_again(&mut self) {
        let mut looked = 0;
        let now = rprof_sampler::monotonic_ns();
        for held in &self.deferred {
            let is_new = held.settled.is_none() && self.layouts[held.layout].stack >= LARGE;
            if !is_new
                || !self
                    .completer
                    .wants_recheck(held.thread, held.cut_point, now)
            {
                continue;
            }
            let (Some(memory), Some(callers)) = (
                self.memory.stack(held.pid),
                self.completer.callers_at(held.thread, held.cut_point),
            ) else {
                continue;
            };
            let stand = are_in(&memory, callers);
            let now = rprof_sampler::monotonic_ns();
            self.completer
                .recheck(held.thread, held.cut_point, stand, now);
            looked += 1;
            if looked == MOST_LOOKS {
                break;
            }
        }
    }

    /// Unwinds in dump and memory, which agree where they meet.
    fn read_on(&mut self, cut: &Cut, cut_point: CutPoint, registers: &Registers, both: &Both<'_>) {
        let code = Code::new(cut.pid, &self.map, &self.tables, &self.memory);
        let mut frames = Vec::new();
        let end = (self.unwinder).unwind(registers, both, &code, MOST_FRAMES, &mut frames);
        let from = self.frames.len();
        // What does not lead to a root is no more to be believed than nothing.
        if let (UnwindOutcome::Complete(root), true) = (end, frames.starts_with(&self.frames))
            && let Some(caller) = frames.get(from)
            && code.may_call(caller, cut_point.function)
        {
            let sighting = StackObservation {
                frames: &frames,
                observed_from: from,
                root,
                time: rprof_sampler::monotonic_ns(),
            };
            self.completer.observe(cut.thread, sighting, &code);
        }
    }

    /// A thread ended, or executes another program: what is known of its stack now is all.
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

    /// Appends callers to the callchain of a record. Answers whether they have room.
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
        let fits = sample.put_unwound(misc, &self.chain, &mut out).is_ok();
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

    fn settle(&mut self, now: u64, record: &mut Vec<u8>) -> bool {
        let Some(held) = self.deferred.front_mut() else {
            return true;
        };
        let outer = match held.settled.take() {
            Some(settled) => settled,
            None => match (self.completer).complete(held.thread, held.cut_point, held.time, now) {
                Completion::Pending => return false,
                Completion::Callers(callers, _) => Some(addresses(callers)),
                Completion::Unknown => None,
            },
        };
        let Some(held) = self.deferred.pop_front() else {
            return true;
        };
        let most = MOST_FRAMES.saturating_sub(held.frames);
        let outer = outer.filter(|callers| callers.len() <= most);
        let is_completed = outer.is_some_and(|callers| self.append(held.layout, &callers, record));
        let image = held.image.and_then(|image| self.map.images().get(image));
        match is_completed {
            true => self.tally.count_completed(),
            false => (self.tally).count_outcome(UnwindOutcome::Truncated(held.cause), image),
        }
        true
    }
}

impl DeferredSample {
    /// With the number of its outermost frame's image.
    pub(super) fn in_image(self, image: Option<usize>) -> DeferredSample {
        DeferredSample { image, ..self }
    }
}

impl Code<'_> {
    /// Whether the call before this frame's return address may be one of the function: a direct call of
    /// another one (x86-64 `call rel32`) is not, unless its target goes on elsewhere.
    fn may_call(&self, caller: &Frame, function: u64) -> bool {
        let mut call = [0; 5];
        let at = caller.address.wrapping_sub(5);
        let is_direct = cfg!(target_arch = "x86_64")
            && self.code(at, &mut call) == call.len()
            && call[0] == 0xe8;
        if !is_direct {
            return true;
        }
        let [_, offset @ ..] = call;
        let offset = i64::from(i32::from_le_bytes(offset));
        let target = caller.address.wrapping_add_signed(offset);
        let mut code = [0; 6];
        let len = self.code(target, &mut code);
        let code = &code[..len.min(code.len())];
        let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
        let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
        // `jmp *GOT` of a PLT entry, and a plain jump.
        target == function || matches!(code, [0xff, ..] | [0xe9, ..] | [0xeb, ..])
    }
}

impl CodeLookup for Code<'_> {
    /// Where the function of a frame starts.
    fn function_of(&self, frame: &Frame) -> Option<u64> {
        let module = self.find(frame.lookup_address())?;
        let svma = frame.lookup_address().wrapping_sub(module.bias);
        let start = module.table?.function_start(svma)?;
        Some(start.wrapping_add(module.bias))
    }

    fn image_offset(&self, address: u64) -> Option<(u64, u64)> {
        let mapping = rprof_processes::find_live(self.mappings, address)?;
        let offset = address.wrapping_sub(mapping.start);
        let offset = offset.wrapping_add(mapping.file_offset);
        Some((mapping.backing.0.into(), offset))
    }
}

fn addresses(callers: &[Frame]) -> Vec<u64> {
    callers.iter().map(|frame| frame.address).collect()
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
