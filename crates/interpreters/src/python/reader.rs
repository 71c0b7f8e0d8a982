//! [`PythonProcess`]: finds the Python functions of one process's stacks.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use rprof_unwind::FrameKind as NativeKind;
use rustc_hash::FxHashMap;

use super::codes::{Codes, is_pointer};
use super::current::{EvalFrame, Finder, LearnedFrames, PythonImage};
use super::debug_offsets;
use super::layout::{FrameKind, Layout};
use super::live::{Look, Track};
use super::looking::look;
use super::looks::{Caller, Looks, Origin};
use super::newcomers::Newcomers;
use super::pace::Pace;
use super::parts::{EntrySites, Judge, PartOfStack, codes_of, parts};
use super::search::Instructions;
use super::slots::{Site, value};
use super::snapshot::RecentAddresses;
use super::thread::{Thread, learn_entry, track};
use crate::{
    CodeKind, Found, Interpreter, MemoryRead, Names, NativeFrame, ProcessMemory, Stack,
    UNNAMED_PYTHON, Urgency, Watcher,
};

/// Maximum number of threads with looks. At the limit all are forgotten.
const MAX_THREADS: usize = 4096;

/// Maximum number of native frames of the interpreter on a stack, innermost first.
const MAX_EVALS: usize = 2048;

/// Number of native frames per stack from which locations are learned.
const MAX_LEARNED: usize = 8;

/// Maximum number of code objects of the last stacks.
const MAX_RECENT: usize = 48;

/// Maximum bytes of code that sets up a frame.
const MAX_SET_UP: usize = 512;

/// Looks at a thread since its last sample.
#[derive(Debug, Default)]
struct NewLooks {
    /// Looks before this sample, oldest first.
    earlier: Vec<Look>,
    /// True if the thread's current look is new as well.
    has_current: bool,
}

impl NewLooks {
    fn current<'t>(&self, thread: &'t Thread) -> Option<&'t Look> {
        self.has_current.then_some(&thread.look)
    }
}

/// Reader of one process.
#[derive(Debug)]
pub(super) struct PythonProcess {
    pub(super) image: Arc<PythonImage>,
    pub(super) layout: Layout,
    bias: u64,
    pub(super) codes: Codes,
    pub(super) threads: FxHashMap<u64, Thread>,
    /// Code objects of the last stacks, which are probably on the next one.
    recent: RecentAddresses<MAX_RECENT>,
    pace: Pace,
    entries: EntrySites,
    newcomers: Newcomers,
    /// Callers that looks at all threads found.
    callers: Looks,
    /// Watchers that were not yet taken.
    watchers: Vec<Box<dyn Watcher>>,
    /// True once the process has confirmed the version of the file name.
    is_right: Option<bool>,
    /// Code that sets up a frame, by stated address (SVMA).
    set_up: Option<Range<u64>>,
}

impl PythonProcess {
    pub(super) fn new(image: Arc<PythonImage>, bias: u64) -> Self {
        let codes = Codes::new(image.layout, image.code_type.wrapping_add(bias));
        Self {
            layout: image.layout,
            bias,
            codes,
            threads: FxHashMap::default(),
            recent: RecentAddresses::default(),
            pace: Pace::default(),
            entries: EntrySites::default(),
            newcomers: Newcomers::default(),
            callers: Looks::default(),
            watchers: Vec::new(),
            is_right: None,
            set_up: image.set_up.clone(),
            image,
        }
    }

    /// Compares the version in memory with the file name, and takes in the stated offsets, once they
    /// could be read.
    fn is_right(&mut self, memory: &mut dyn ProcessMemory) -> bool {
        if self.is_right.is_none() {
            self.is_right = self.check(memory);
        }
        self.is_right == Some(true)
    }

    fn check(&mut self, memory: &mut dyn ProcessMemory) -> Option<bool> {
        let minor = self.image.minor;
        if let Some(version) = self.image.version {
            let mut read = [MemoryRead::new(version.wrapping_add(self.bias), 4)];
            memory.read(&mut read);
            // `PY_VERSION_HEX`
            if read.first()?.u32(0)? >> 16 != 0x300 | u32::from(minor) {
                return Some(false);
            }
        }
        let stated = self
            .image
            .runtime
            .filter(|_| debug_offsets::are_stated(minor));
        if let Some(runtime) = stated {
            let mut read = [MemoryRead::new(
                runtime.wrapping_add(self.bias),
                debug_offsets::LEN,
            )];
            memory.read(&mut read);
            match debug_offsets::apply(&self.layout, minor, read.first()?.get()?) {
                Some(layout) => self.layout = layout,
                None => return Some(false),
            }
            self.codes.set_layout(self.layout);
        }
        Some(true)
    }

    /// Finds the end of the code that sets up a frame: the first jump through a table or register.
    fn find_set_up(&mut self, memory: &mut dyn ProcessMemory) {
        if self.set_up.is_some() {
            return;
        }
        let eval = self.image.eval;
        let mut read = [MemoryRead::new(eval.wrapping_add(self.bias), MAX_SET_UP)];
        memory.read(&mut read);
        let code = read.first().and_then(MemoryRead::get).unwrap_or_default();
        let is_jump =
            |code: &[u8]| matches!(code, [0xff, 0xe0..=0xe7 | 0x24] | [0xff, 0x60..=0x67]);
        let len = code.windows(2).position(is_jump).unwrap_or(MAX_SET_UP);
        self.set_up = Some(eval..eval.saturating_add(len as u64));
    }

    pub(super) fn finder<'a, 's>(
        &self,
        layout: &'a Layout,
        stack: &'a Stack<'s>,
        evals: &'a [EvalFrame],
    ) -> Finder<'a, 's> {
        Finder {
            layout,
            stack,
            evals,
            code_type: self.image.code_type.wrapping_add(self.bias),
            frame_type: self.image.frame_type.wrapping_add(self.bias),
        }
    }

    fn eval_frames(&self, stack: &Stack<'_>) -> Vec<EvalFrame> {
        // The first function of a greenlet has no caller. It began on the stack of another one,
        // which the native frames below are of.
        let frames = &stack.frames;
        let first = frames.iter().position(|native| self.is_own(native));
        let first = first.unwrap_or(frames.len());
        let is_switch = |native: &NativeFrame| native.code == CodeKind::Switch;
        let root = frames.iter().skip(first).position(is_switch);
        let len = root.map_or(frames.len(), |root| first + root);
        let evals = frames
            .iter()
            .take(len)
            .enumerate()
            .filter_map(|(index, native)| {
                let caller = frames.get(index.checked_add(1)?)?;
                // The trampolines of `-X perf` name these frames already.
                if !self.is_own(native) || caller.code == CodeKind::Generated {
                    return None;
                }
                let CodeKind::Image(svma) = native.code else {
                    return None;
                };
                let site = match native.frame.kind {
                    NativeKind::Caller => Site::Calling(svma),
                    NativeKind::Sampled | NativeKind::Interrupted => Site::Running,
                };
                let (sp, cfa) = (native.frame.sp, caller.frame.sp);
                let is_starting = site == Site::Running
                    && self
                        .set_up
                        .as_ref()
                        .is_none_or(|range| range.contains(&svma));
                (sp < cfa).then_some(EvalFrame {
                    index,
                    is_starting,
                    site,
                    sp,
                    cfa,
                })
            });
        evals.take(MAX_EVALS).collect()
    }

    /// Finds current frames that are the outermost ones of their native frames, by their place in
    /// the data stack.
    fn find_outermost(&mut self, parts: &mut [PartOfStack], stack: &Stack<'_>, is_new: bool) {
        let ends = parts.iter().skip(1).map(|outer| {
            let frame = outer.current?;
            self.codes.frame_end(outer.running?, frame)
        });
        let ends: Vec<Option<u64>> = ends.collect();
        for (part, end) in parts.iter_mut().zip(ends) {
            let caller = part.eval.index.checked_add(1);
            let Some(caller) = caller.and_then(|at| stack.frames.get(at)) else {
                continue;
            };
            let site = caller.frame.address;
            part.follows_outer = end.is_some() && part.current == end;
            if !part.follows_outer {
                continue;
            }
            let Some(function) = part.running.map(|code| self.codes.number(code)) else {
                continue;
            };
            let is_same = part.in_memory.map(|frame| frame.code) == part.running;
            if let Some(is_outermost) = part.outermost.filter(|_| is_new && is_same) {
                self.entries.observe(site, function, is_outermost);
            }
            part.is_outermost = self.entries.calls(site, function);
        }
    }

    fn take_thread(&mut self, id: u64) -> Thread {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&id) {
            self.threads.clear();
        }
        self.threads.remove(&id).unwrap_or_default()
    }

    /// Takes the looks between samples, and has further ones taken at the process's pace.
    fn take_looks(
        &mut self,
        track: &Track,
        (id, time): (u64, u64),
        thread: &mut Thread,
    ) -> NewLooks {
        let pace = (self.pace.interval(), self.recent.get());
        self.watchers.extend(thread.watch(track, time, pace));
        if !self.threads.is_empty() {
            // Its own watcher leads to its outermost functions less often.
            let own = (id, thread.origin.map(|_| thread.owner()));
            let pace = (time, self.pace.interval());
            (self.watchers).extend(self.newcomers.handle_sample(own, track, pace));
        }
        let (earlier, has_current) = thread.take_looks(time);
        NewLooks {
            earlier,
            has_current,
        }
    }

    /// Looks at a thread, with the memory around these frames and proofs of recent code objects.
    fn look_now(
        &mut self,
        track: Option<&Track>,
        frames: &[u64],
        thread: &mut Thread,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
    ) {
        let proofs = self.codes.reads(self.recent.get());
        let (mut look, proofs) = look(&self.layout, track, frames, proofs, memory);
        self.codes.take_in(&proofs, look.time, memory, names);
        if look.owner != thread.owner() {
            look.segments.clear();
        }
        thread.look = look;
        if track.is_some() {
            thread.check_state();
        }
    }

    /// Returns the objects around the next instructions of functions that are not known yet.
    fn search(
        &mut self,
        parts: &[PartOfStack],
        stack: &Stack<'_>,
        learned: &LearnedFrames,
        memory: &mut dyn ProcessMemory,
    ) -> Vec<u64> {
        let running = parts.iter().filter(|part| !part.eval.is_starting);
        let next = running.filter_map(|part| {
            let location = learned.next.probable(part.eval.site)?;
            value(stack, part.eval.index, location)
        });
        let mut instructions = Instructions::new(next, &self.codes);
        if instructions.reads.is_empty() {
            return Vec::new();
        }
        memory.read(&mut instructions.reads);
        let (objects, missing) = instructions.objects(&self.codes);
        for address in missing {
            self.codes.note_absent(address, memory.time());
        }
        objects
    }

    /// Decides which code object each part runs, and learns where native frames keep it.
    fn find_running(
        &self,
        parts: &mut [PartOfStack],
        stack: &Stack<'_>,
        evals: &[EvalFrame],
        learned: &mut LearnedFrames,
    ) {
        let judge = self.judge(stack);
        for (at, part) in parts.iter_mut().enumerate() {
            if at < MAX_LEARNED {
                judge.learn_next(part, learned);
            }
            part.running = judge.running(part, evals.get(at + 1), learned);
            part.is_made = judge.is_made(part, learned);
        }
    }

    /// Remembers the callers that new looks show.
    fn observe(
        &self,
        looks: &NewLooks,
        parts: &[PartOfStack],
        stack: &Stack<'_>,
        thread: &mut Thread,
        callers: &mut Looks,
    ) {
        let judge = self.judge(stack);
        for look in &looks.earlier {
            judge.observe(look, false, callers);
        }
        if looks.has_current {
            // The sample itself lies between it and the look before.
            judge.observe(&thread.look, true, callers);
            let outer = parts.iter().skip(1).map(Some).chain([None]);
            for (part, outer) in parts.iter().zip(outer) {
                judge.observe_outermost(part, outer, callers);
            }
        }
        for look in &mut thread.later {
            if std::mem::take(&mut look.is_new) {
                judge.contradict(look, callers);
            }
        }
    }

    /// Finds the function outside each part, as of the sample. Frames that a look found below
    /// another one are of another call.
    fn find_outer_functions(&self, parts: &mut [PartOfStack]) {
        for inner in (1..parts.len()).rev() {
            let Some([part, outer]) = parts.get_mut(inner - 1..=inner) else {
                return;
            };
            let is_proven = |code: &u64| self.codes.is_proven(*code);
            if let Some(running) = outer.running.filter(is_proven) {
                part.part.function = self.codes.number(running);
                if outer.seen.first().map(|frame| frame.code) != Some(running) {
                    part.seen.clear();
                }
            }
        }
    }

    /// Adds the functions of each native frame, with a gap for each unproven one.
    fn push_functions(
        &self,
        evals: &[EvalFrame],
        functions: &[Vec<Option<Caller>>],
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        for (eval, callers) in evals.iter().zip(functions) {
            for caller in callers {
                match caller.filter(|caller| self.codes.is_proven(caller.code)) {
                    Some(caller) if self.codes.is_shim(caller.code) => {}
                    Some(caller) => {
                        let name = self.codes.name(caller.code);
                        found.push(eval.index, name, UNNAMED_PYTHON, names);
                    }
                    None => found.push_gap(eval.index, names),
                }
            }
        }
    }

    const fn judge<'a, 's>(&'a self, stack: &'a Stack<'s>) -> Judge<'a, 's> {
        Judge {
            layout: &self.layout,
            stack,
            codes: &self.codes,
        }
    }

    /// Proves code objects. If any is due, proves the recent ones as well, since another batch takes
    /// as long.
    pub(super) fn prove(
        &mut self,
        codes: &[u64],
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
    ) {
        if self.codes.reads(codes).is_empty() {
            return;
        }
        let codes: Vec<u64> = [codes, self.recent.get()].concat();
        let mut reads = self.codes.reads(&codes);
        memory.read(&mut reads);
        (self.codes).take_in(&reads, memory.time(), memory, names);
    }
}

impl Interpreter for PythonProcess {
    fn is_own(&self, frame: &NativeFrame) -> bool {
        matches!(frame.code, CodeKind::Image(svma) if self.image.is_eval(svma))
    }

    fn read(
        &mut self,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        if !self.is_right(memory) {
            found.is_unread = self.is_right.is_none();
            return;
        }
        self.find_set_up(memory);
        let evals = self.eval_frames(stack);
        if evals.is_empty() {
            return;
        }
        if stack.is_asleep {
            self.read_asleep(stack, &evals, memory, names, found);
            return;
        }
        let image = Arc::clone(&self.image);
        let layout = self.layout;
        if layout.kind != FrameKind::Objects {
            found.urgency = self.pace.urgency();
        }
        self.codes.begin_sample(stack.time);
        let mut learned = image.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let finder = self.finder(&layout, stack, &evals);
        let current = finder.find(&mut learned, memory);
        let mut thread = self.take_thread(stack.thread);
        let track = track(&layout, &finder, &learned, &mut thread, memory);
        thread.set_number(stack.thread, memory);
        let mut looks = match &track {
            Some(track) => self.take_looks(track, (stack.thread, stack.time), &mut thread),
            None => NewLooks::default(),
        };
        if track.is_some() && thread.is_watched(stack.time) {
            found.urgency = found.urgency.min(Urgency::Relaxed);
            for look in looks.earlier.iter().chain(looks.current(&thread)) {
                (self.codes).take_in(&look.proofs, look.proven, memory, names);
            }
        } else if track.is_none() || thread.look.time < stack.time || found.urgency == Urgency::High
        {
            // Samples that arrive together share the look after the last of them. While evidence is
            // missing, each has a look: the next one finds the thread elsewhere.
            looks.has_current = true;
            let frames = current.iter().flatten().copied();
            let frames: Vec<u64> = frames.filter(|frame| is_pointer(*frame)).collect();
            self.look_now(track.as_ref(), &frames, &mut thread, memory, names);
            if thread.look.snapshot.is_empty() && !frames.is_empty() {
                found.is_unread = true;
                self.threads.insert(stack.thread, thread);
                return;
            }
        }
        if let Some(look) = looks.current(&thread) {
            learn_entry(&finder, look, &mut learned);
        }
        for (proofs, proven) in self.newcomers.proofs() {
            self.codes.take_in(proofs, proven, memory, names);
        }
        let mut parts = parts(&layout, &evals, &current, &mut thread.look, memory);
        let mut codes = codes_of(&parts, looks.earlier.iter().chain([&thread.look]));
        codes.extend(self.newcomers.codes());
        codes.extend(self.search(&parts, stack, &learned, memory));
        self.prove(&codes, memory, names);
        self.find_running(&mut parts, stack, &evals, &mut learned);
        drop(learned);
        let running: Vec<u64> = parts.iter().filter_map(|part| part.running).collect();
        self.prove(&running, memory, names);
        self.find_outer_functions(&mut parts);
        self.find_outermost(&mut parts, stack, looks.has_current);
        let mut callers = std::mem::take(&mut self.callers);
        let mut newcomers = std::mem::take(&mut self.newcomers);
        let judge = self.judge(stack);
        newcomers.observe(stack.time, &judge, &mut callers);
        if thread.origin.is_none() {
            let mut new = looks.earlier.iter().chain(looks.current(&thread));
            // Looks at another thread begin elsewhere.
            let outermost = (evals.last().filter(|_| stack.is_complete)).map(|eval| eval.cfa);
            let is_here = |origin: &Origin| outermost.is_none_or(|cfa| cfa == origin.native);
            let own = new.find_map(|look| judge.origin(look));
            let own = own.or_else(|| newcomers.origin(thread.owner()));
            thread.origin = own.filter(is_here);
        }
        self.newcomers = newcomers;
        callers.begin(stack.thread, thread.origin);
        self.observe(&looks, &parts, stack, &mut thread, &mut callers);
        let judge = self.judge(stack);
        let functions = parts.iter().map(|part| judge.functions(part, &callers));
        let functions: Vec<Vec<Option<Caller>>> = functions.collect();
        self.callers = callers;
        let callers = functions.iter().flatten().flatten();
        let codes: Vec<u64> = callers.map(|caller| caller.code).collect();
        // Code objects must not have changed, also those without a frame in memory.
        self.prove(&codes, memory, names);
        self.push_functions(&evals, &functions, names, found);
        self.recent.add(&codes);
        self.pace.count(looks.has_current, found.gaps > 0);
        self.threads.insert(stack.thread, thread);
    }

    fn take_watcher(&mut self) -> Option<Box<dyn Watcher>> {
        self.watchers.pop()
    }

    fn forget_thread(&mut self, thread: u64) {
        if let Some(known) = self.threads.remove(&thread) {
            let owner = known.owner();
            self.newcomers.forget_thread(thread, owner);
            self.callers.forget_thread(owner);
        }
        self.callers.forget_thread(thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_unwind::{Arch, FoundBy, Registers, StackDump, StackFrame};

    #[test]
    fn functions_of_a_greenlet_end_at_its_first_one() {
        let image = Arc::new(PythonImage {
            layout: Layout::of(12).unwrap(),
            minor: 12,
            eval: 0x100,
            evals: std::iter::once(0x100..0x200).collect(),
            code_type: 0,
            frame_type: 0,
            version: None,
            runtime: None,
            set_up: None,
            learned: Default::default(),
        });
        let process = PythonProcess::new(image, 0);
        let code = CodeKind::Image(0x110);
        let evals = |codes: &[CodeKind]| {
            let frame = |(sp, code): (u64, &CodeKind)| NativeFrame {
                frame: StackFrame {
                    address: 0x111,
                    sp: 0x1000 * sp,
                    slot: 0,
                    kind: NativeKind::Caller,
                    found_by: FoundBy::Cfi,
                },
                registers: Registers::new(Arch::X86_64, 0x111, 0x1000 * sp),
                code: *code,
            };
            let frames: Vec<NativeFrame> = (1..).zip(codes).map(frame).collect();
            let stack = Stack {
                thread: 1,
                time: 1,
                frames: &frames,
                memory: &StackDump::new(0, &[]),
                is_complete: true,
                is_asleep: false,
            };
            let evals = process.eval_frames(&stack);
            evals.iter().map(|eval| eval.index).collect::<Vec<_>>()
        };
        let (switch, other) = (CodeKind::Switch, CodeKind::Other);
        assert_eq!(evals(&[code, other, code, other]), [0, 2]);
        assert_eq!(evals(&[code, code, switch, code, other]), [0, 1]);
        // The thread is about to switch.
        assert_eq!(evals(&[switch, code, other, code, other]), [1, 3]);
    }
}
