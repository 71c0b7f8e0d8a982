//! [`PythonProcess`]: finds the Python functions of one process's stacks.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rprof_unwind::FrameKind as NativeKind;
use rustc_hash::FxHashMap;

use super::codes::{Codes, is_pointer};
use super::current::{EvalFrame, Finder};
use super::image::PythonImage;
use super::layout::{FrameKind, Layout};
use super::live::{self, Chain, End, InnerLook, LiveLook, LiveThread};
use super::looks::{Caller, Looks, Part};
use super::parts::{Judge, PartOfStack};
use super::slots::Site;
use super::snapshot::Snapshot;
use crate::{
    CodeKind, Found, Interpreter, MemoryRead, Names, NativeFrame, ProcessMemory, Stack,
    UNNAMED_PYTHON,
};

/// Maximum number of threads with looks. At the limit all are forgotten.
const MAX_THREADS: usize = 4096;

/// Maximum number of native frames of the interpreter on a stack, innermost first.
const MAX_EVALS: usize = 2048;

/// Number of native frames per stack from which locations are learned.
const MAX_LEARNED: usize = 8;

/// Maximum number of searches for the thread state.
const MAX_SEARCHES: u32 = 32;

/// Maximum duration of a read of frames that belong together.
const MAX_DURATION: Duration = Duration::from_micros(100);

/// Maximum bytes of code that sets up a frame.
const MAX_SET_UP: usize = 512;

/// Reader of one process.
#[derive(Debug)]
pub(super) struct PythonProcess {
    image: Arc<PythonImage>,
    layout: Layout,
    bias: u64,
    codes: Codes,
    threads: FxHashMap<u64, Thread>,
    /// Code objects of the last stack, which are probably on the next one.
    last_codes: Vec<u64>,
    /// True once the process has confirmed the version of the file name.
    is_right: Option<bool>,
    /// Code that sets up a frame, by stated address (SVMA).
    set_up: Option<Range<u64>>,
}

#[derive(Debug, Default)]
struct Thread {
    looks: Looks,
    /// Address of the thread state, once found.
    state: Option<u64>,
    /// Number of searches for it.
    searches: u32,
}

impl PythonProcess {
    pub(super) fn new(image: Arc<PythonImage>, bias: u64) -> Self {
        let codes = Codes::new(image.layout, image.code_type.wrapping_add(bias));
        Self {
            layout: image.layout,
            image,
            bias,
            codes,
            threads: FxHashMap::default(),
            last_codes: Vec::new(),
            is_right: None,
            set_up: None,
        }
    }

    /// Compares the version in memory with the file name, once.
    fn is_right(&mut self, memory: &mut dyn ProcessMemory) -> bool {
        let Some(version) = self.image.version else {
            return true;
        };
        *self.is_right.get_or_insert_with(|| {
            let mut read = [MemoryRead::new(version.wrapping_add(self.bias), 4)];
            memory.read(&mut read);
            let number = read.first().and_then(|read| read.u32(0));
            // `PY_VERSION_HEX`
            number.is_some_and(|number| number >> 16 == 0x300 | u32::from(self.image.minor))
        })
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

    fn eval_frames(&self, stack: &Stack<'_>) -> Vec<EvalFrame> {
        let evals = stack
            .frames
            .iter()
            .enumerate()
            .filter_map(|(index, native)| {
                let caller = stack.frames.get(index.checked_add(1)?)?;
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

    /// Reads the Python frames of a thread, and code objects together with them.
    fn read_frames(
        &mut self,
        (finder, current): (&Finder<'_, '_>, &[Option<u64>]),
        (evals, cframes): (&[EvalFrame], &[Option<u64>]),
        thread: &mut Thread,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
    ) -> (Snapshot, Option<LiveLook>, Option<InnerLook>) {
        let layout = &self.image.layout;
        let innermost = match layout.kind {
            FrameKind::Objects => None,
            FrameKind::CFrames { .. } => cframes.first().copied().flatten(),
            FrameKind::Entries => current.first().copied().flatten(),
        };
        if let (None, Some(innermost)) = (thread.state, innermost)
            && thread.searches < MAX_SEARCHES
        {
            thread.searches += 1;
            thread.state = finder.thread_state(innermost, memory);
        }
        let state = thread.state.filter(|_| innermost.is_some());
        let live = state.map_or_else(Vec::new, |state| live::reads(layout, state, cframes));
        let frames = current.iter().flatten().copied();
        let frames: Vec<u64> = frames.filter(|frame| is_pointer(*frame)).collect();
        let mut snapshot = Snapshot::default();
        // Code objects come last, so that the thread has little time to move.
        let mut again = live.clone();
        let innermost = current.first().copied().flatten().unwrap_or(0);
        again.push(MemoryRead::new(
            innermost.wrapping_add(layout.frame.code as u64),
            8,
        ));
        let len = again.len();
        again.extend(self.codes.reads(&self.last_codes));
        let (live, after) = snapshot.read(&frames, (live, again), memory);
        let is_fast = memory.duration() <= MAX_DURATION;
        let (after, codes) = after.split_at_checked(len).unwrap_or_default();
        self.codes.take_in(codes, memory, names);
        let look = live::look(layout, (&live, after), cframes).filter(|look| {
            let code = after.last().and_then(|read| read.u64(0));
            let is_same =
                live::frame(layout, look.frame, &snapshot).map(|frame| frame.code) == code;
            is_fast && (look.frame != innermost || is_same)
        });
        let Some(state) = state.filter(|_| look.is_none()) else {
            return (snapshot, look, None);
        };
        match live::inner_look(layout, state, &live, cframes, evals, &mut snapshot, memory) {
            Some((look, inner)) => (snapshot, Some(look), Some(inner)),
            None => (snapshot, None, None),
        }
    }

    /// Collects the evidence for each part of the stack.
    fn parts(
        &self,
        evals: &[EvalFrame],
        current: &[Option<u64>],
        thread: &LiveThread<'_>,
        snapshot: &mut Snapshot,
        memory: &mut dyn ProcessMemory,
    ) -> Vec<PartOfStack> {
        let layout = &self.image.layout;
        let of = |at: usize| current.get(at).copied().flatten();
        let mut parts: Vec<PartOfStack> = (evals.iter().enumerate())
            .map(|(at, eval)| PartOfStack {
                eval: *eval,
                part: Part {
                    native: eval.cfa,
                    outer: of(at + 1).unwrap_or(0),
                },
                current: of(at),
                running: None,
                is_made: false,
                in_memory: of(at).and_then(|frame| live::frame(layout, frame, snapshot)),
                chain: None,
            })
            .collect();
        let Some(look) = thread.look else {
            return parts;
        };
        let mut has_read_more = false;
        let chain = live::chain(layout, look.frame, evals, snapshot, |snapshot, address| {
            has_read_more = true;
            snapshot.read(&[address], Default::default(), memory);
        });
        // Generators are elsewhere. The thread must still be where it was.
        if has_read_more && !self.is_still(look, &chain, thread, memory) {
            return parts;
        }
        let running = look.eval.or_else(|| match chain.end {
            Some(End::InNative(at)) => evals.iter().position(|eval| eval.contains(at)),
            _ => None,
        });
        let Some(running) = running else {
            return parts;
        };
        for (at, part) in parts.iter_mut().enumerate().skip(running) {
            part.chain = match (at == running, part.current) {
                (true, _) => Some(chain.clone()),
                // It waits for the inner ones, so its frames do not change meanwhile.
                (false, Some(frame)) => Some(live::chain(
                    layout,
                    frame,
                    evals,
                    snapshot,
                    |snapshot, address| {
                        snapshot.read(&[address], Default::default(), memory);
                    },
                )),
                (false, None) => None,
            };
        }
        parts
    }

    /// Returns true if a thread still runs the frame of a look.
    fn is_still(
        &self,
        look: LiveLook,
        chain: &Chain,
        thread: &LiveThread<'_>,
        memory: &mut dyn ProcessMemory,
    ) -> bool {
        let layout = &self.image.layout;
        let (Some(state), Some(frame)) = (thread.state, chain.frames.first()) else {
            return false;
        };
        let mut reads = live::reads(layout, state, thread.cframes);
        let code = look.frame.wrapping_add(layout.frame.code as u64);
        reads.push(MemoryRead::new(code, 8));
        memory.read(&mut reads);
        let code = reads.last().and_then(|read| read.u64(0));
        code == Some(frame.code)
            && live::look(layout, (&reads, &reads), thread.cframes) == Some(look)
    }

    const fn judge<'a, 's>(&'a self, stack: &'a Stack<'s>) -> Judge<'a, 's> {
        Judge {
            layout: &self.layout,
            stack,
            codes: &self.codes,
        }
    }

    fn confirm(&mut self, codes: &[u64], memory: &mut dyn ProcessMemory, names: &mut dyn Names) {
        let mut reads = self.codes.reads(codes);
        if !reads.is_empty() {
            memory.read(&mut reads);
            self.codes.take_in(&reads, memory, names);
        }
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
            return;
        }
        self.find_set_up(memory);
        let evals = self.eval_frames(stack);
        if evals.is_empty() {
            return;
        }
        let image = Arc::clone(&self.image);
        found.is_urgent = image.layout.kind != FrameKind::Objects;
        let mut learned = image.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let finder = Finder {
            layout: &image.layout,
            stack,
            evals: &evals,
            code_type: image.code_type.wrapping_add(self.bias),
            frame_type: image.frame_type.wrapping_add(self.bias),
        };
        let current = finder.find(&mut learned, memory);
        let cframes: Vec<_> = evals.iter().map(|eval| learned.cframe_of(eval)).collect();
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&stack.thread) {
            self.threads.clear();
        }
        let mut thread = self.threads.remove(&stack.thread).unwrap_or_default();
        self.codes.begin_sample();
        let sample = (&finder, &current[..]);
        let natives = (&evals[..], &cframes[..]);
        let (mut snapshot, look, inner) =
            self.read_frames(sample, natives, &mut thread, memory, names);
        if snapshot.is_empty() && current.iter().flatten().any(|frame| is_pointer(*frame)) {
            found.is_unread = true;
            self.threads.insert(stack.thread, thread);
            return;
        }
        let live = LiveThread {
            look,
            state: thread.state,
            cframes: &cframes,
        };
        let mut parts = self.parts(&evals, &current, &live, &mut snapshot, memory);
        let chains = parts.iter().filter_map(|part| part.chain.as_ref());
        let codes = chains.flat_map(|chain| chain.frames.iter().map(|frame| frame.code));
        let codes = codes.chain(parts.iter().filter_map(|part| Some(part.in_memory?.code)));
        let inside = inner.iter().flat_map(|inner| inner.chain.frames.iter());
        let codes = codes.chain(inside.map(|frame| frame.code));
        self.confirm(&codes.collect::<Vec<u64>>(), memory, names);
        for (at, part) in parts.iter_mut().enumerate() {
            let judge = self.judge(stack);
            if at < MAX_LEARNED {
                judge.learn_next(part, &mut learned);
            }
            part.running = judge.running(part, evals.get(at + 1), &learned);
            part.is_made = judge.is_made(part, &learned);
        }
        drop(learned);
        if let Some(inner) = inner {
            self.judge(stack).observe_inner(&inner, &mut thread.looks);
        }
        let functions = parts
            .iter()
            .map(|part| self.judge(stack).functions(part, &mut thread.looks));
        let functions: Vec<Vec<Option<Caller>>> = functions.collect();
        let codes = functions
            .iter()
            .flatten()
            .flatten()
            .map(|caller| caller.code);
        let codes: Vec<u64> = codes.collect();
        // Code objects must not have changed, also those without a frame in memory.
        self.confirm(&codes, memory, names);
        for (eval, callers) in evals.iter().zip(&functions) {
            for caller in callers {
                match caller.filter(|caller| self.codes.is_confirmed(caller.code)) {
                    Some(caller) => {
                        let name = self.codes.name(caller.code);
                        found.push(eval.index, name, UNNAMED_PYTHON, names);
                    }
                    None => found.push_gap(eval.index, names),
                }
            }
        }
        self.last_codes = codes;
        self.threads.insert(stack.thread, thread);
    }

    fn forget_thread(&mut self, thread: u64) {
        self.threads.remove(&thread);
    }
}
