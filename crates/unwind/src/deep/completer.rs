//! [`DeepStackCompleter`]: observations and cut points of all threads.

use super::caller_history::{CallerHistory, Look};
use super::cross_thread::{CrossThreadModels, Fingerprint};
use super::observation::{CodeLookup, Completion, CutPoint, StackObservation};
use super::rule::{
    DEFERRAL, MAX_AGE_CROSS_THREAD, MAX_AGE_ONE_SIDED, MIN_OBSERVATIONS, POLYMORPHIC,
};
use crate::{FrameKind, Root, StackFrame};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) const MAX_FRAMES: usize = 1 << 19;

/// Maximum number of cut points of a thread before old ones are dropped.
pub(super) const MAX_CUT_POINTS: usize = 128;

/// Ambiguous cut points and functions of a thread. A thread with more never has a stable stack.
const MAX_AMBIGUOUS: usize = 1024;

/// Finds the callers of truncated stacks from earlier and later observations of the same threads.
/// Memory is bounded.
///
/// # Examples
/// ```
/// use rprof_unwind::{
///     CodeLookup, Completion, CutPoint, DeepStackCompleter, FoundBy, FrameKind, Root, StackFrame,
///     StackObservation,
/// };
///
/// /// Functions of 16 bytes, all in one image.
/// struct Code;
/// impl CodeLookup for Code {
///     fn function_of(&self, frame: &StackFrame) -> Option<u64> {
///         Some(frame.address & !0xf)
///     }
///     fn image_offset(&self, address: u64) -> Option<(u64, u64)> {
///         Some((1, address))
///     }
/// }
///
/// let frame = |address, sp| StackFrame {
///     address,
///     sp,
///     slot: sp - 8,
///     kind: FrameKind::Caller,
///     found_by: FoundBy::Cfi,
/// };
/// // leaf, wide, caller, main: the copies end in `wide`, whose frame is too big.
/// let frames = [frame(0x101, 0x1000), frame(0x201, 0x1100), frame(0x301, 0x9000), frame(0x401, 0x9100)];
/// let cut = CutPoint { slot: frames[2].slot, function: 0x200 };
/// let (thread, ms) = (7, 1_000_000);
///
/// let mut stacks = DeepStackCompleter::new();
/// for n in 0..6 {
///     stacks.register_cut(thread, cut, &frames[..2], n * ms, &Code);
///     // A read of the process's memory, some 0.6 ms later.
///     let observation = StackObservation {
///         frames: &frames,
///         observed_from: 2,
///         root: Root::UndefinedReturnAddress,
///         begun: n * ms + 550_000,
///         time: n * ms + 600_000,
///     };
///     stacks.observe(thread, observation, &Code);
/// }
/// assert_eq!(stacks.complete(thread, cut, 3 * ms, 4 * ms), Completion::Pending);
/// let Completion::Callers(callers, _) = stacks.complete(thread, cut, 3 * ms, 300 * ms) else {
///     panic!("the callers were observed before and after");
/// };
/// assert_eq!(callers.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct DeepStackCompleter {
    pub(super) threads: FxHashMap<u64, ThreadHistory>,
    models: CrossThreadModels,
    pub(super) frames: usize,
}

#[derive(Debug, Default)]
pub(super) struct ThreadHistory {
    last_ran: u64,
    last: Vec<StackFrame>,
    last_observed_from: usize,
    last_begun: u64,
    last_time: u64,
    last_root: Option<Root>,
    pub(super) cut_points: FxHashMap<CutPoint, CallerHistory>,
    ambiguous: AmbiguousCuts,
}

/// Cut points with changing callers, and their number by function.
#[derive(Debug, Default)]
struct AmbiguousCuts {
    cuts: FxHashSet<CutPoint>,
    by_function: FxHashMap<u64, u32>,
}

impl AmbiguousCuts {
    fn insert(&mut self, cut: CutPoint) {
        if self.cuts.len() >= MAX_AMBIGUOUS {
            self.cuts.clear();
            self.by_function.clear();
        }
        if self.cuts.insert(cut) {
            *self.by_function.entry(cut.function).or_default() += 1;
        }
    }

    fn is_polymorphic(&self, function: u64) -> bool {
        (self.by_function.get(&function)).is_some_and(|n| *n >= POLYMORPHIC)
    }
}

impl DeepStackCompleter {
    /// Creates a completer without observations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an observation of a thread's stack.
    pub fn observe(&mut self, id: u64, observation: StackObservation<'_>, code: &impl CodeLookup) {
        if self.frames > MAX_FRAMES {
            self.threads.clear();
            self.frames = 0;
        }
        let thread = self.threads.entry(id).or_default();
        self.frames -= thread.frames();
        if observation.observed_from == 0 {
            thread.last_ran = thread.last_ran.max(observation.time);
        }
        let ThreadHistory {
            last_ran,
            cut_points,
            ambiguous,
            ..
        } = thread;
        let slots = (!cut_points.is_empty())
            .then(|| Slots::new(observation.frames, observation.observed_from));
        let slots = slots.unwrap_or_default();
        for (cut, history) in cut_points {
            let was_ambiguous = history.ambiguous;
            apply(
                (&observation, &slots),
                *cut,
                history,
                (id, *last_ran),
                &mut self.models,
                code,
            );
            if history.ambiguous && !was_ambiguous {
                ambiguous.insert(*cut);
            }
        }
        thread.last.clear();
        thread.last.extend_from_slice(observation.frames);
        thread.last_observed_from = observation.observed_from;
        thread.last_begun = observation.begun;
        thread.last_time = observation.time;
        thread.last_root = Some(observation.root);
        self.frames += thread.frames();
    }

    /// Records a truncated stack, sampled at `time`. `frames` are the frames of the copy, innermost
    /// first. They also show which other cut points are on the stack.
    pub fn register_cut(
        &mut self,
        id: u64,
        cut: CutPoint,
        frames: &[StackFrame],
        time: u64,
        code: &impl CodeLookup,
    ) {
        let thread = self.threads.entry(id).or_default();
        thread.last_ran = thread.last_ran.max(time);
        let copy = CutCopy::new(cut, frames, code);
        for (other, history) in &mut thread.cut_points {
            if let Some(is_live) = copy.shows(*other) {
                let was_ambiguous = history.ambiguous;
                history.sampled(time, is_live);
                if history.ambiguous && !was_ambiguous {
                    thread.ambiguous.insert(*other);
                }
                report(id, history, &mut self.models);
            }
        }
        if let Some(history) = thread.cut_points.get_mut(&cut) {
            history.last_cut = time;
            return;
        }
        self.frames -= thread.frames();
        if thread.cut_points.len() >= MAX_CUT_POINTS {
            let old = time.saturating_sub(2 * DEFERRAL);
            (thread.cut_points).retain(|_, history| history.last_cut >= old);
        }
        // With so many at once, the thread changes too fast to be observed.
        if thread.cut_points.len() >= 4 * MAX_CUT_POINTS {
            thread.cut_points.clear();
        }
        let mut history = CallerHistory::new(time, thread.ambiguous.cuts.contains(&cut));
        if let Some(root) = thread.last_root {
            let last = StackObservation {
                frames: &thread.last,
                observed_from: thread.last_observed_from,
                root,
                begun: thread.last_begun,
                time: thread.last_time,
            };
            let of = (id, thread.last_ran);
            let slots = Slots::new(last.frames, last.observed_from);
            let seen = (&last, &slots);
            apply(seen, cut, &mut history, of, &mut self.models, code);
            history.sampled(time, true);
            report(id, &mut history, &mut self.models);
        }
        thread.cut_points.insert(cut, history);
        self.frames += thread.frames();
    }

    /// Returns the callers observed at a cut point. Look for them in memory and report the result
    /// by [`recheck`](Self::recheck).
    #[must_use]
    pub fn callers_at(&self, thread: u64, cut: CutPoint) -> Option<&[StackFrame]> {
        let history = self.threads.get(&thread)?.cut_points.get(&cut)?;
        (!history.callers.is_empty()).then_some(&history.callers)
    }

    /// Returns true if a [recheck](Self::recheck) at `now` would add evidence.
    #[must_use]
    pub fn wants_recheck(&self, thread: u64, cut: CutPoint, now: u64) -> bool {
        let thread = self.threads.get(&thread);
        let history = thread.and_then(|thread| thread.cut_points.get(&cut));
        history.is_some_and(|history| history.wants_recheck(now))
    }

    /// Records whether memory, read from `begun` to `time`, contained the [known
    /// callers](Self::callers_at). The thread's next sample must confirm a positive result.
    pub fn recheck(&mut self, id: u64, cut: CutPoint, stood: bool, begun: u64, time: u64) {
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        if let Some(history) = thread.cut_points.get_mut(&cut) {
            let last_ran = thread.last_ran;
            let look = Look {
                begun,
                time,
                last_ran,
            };
            history.looked(look, stood);
        }
    }

    /// Returns the callers of a stack [cut](Self::register_cut) at `time`, if the evidence
    /// suffices. Observations are complete up to `now`; `u64::MAX` if no more will follow.
    #[must_use]
    pub fn complete(&self, id: u64, cut: CutPoint, time: u64, now: u64) -> Completion<'_> {
        if now.saturating_sub(time) < DEFERRAL {
            return Completion::Pending;
        }
        let Some(thread) = self.threads.get(&id) else {
            return Completion::Unknown;
        };
        let Some(history) = thread.cut_points.get(&cut) else {
            return Completion::Unknown;
        };
        let Some(root) = history.root else {
            return Completion::Unknown;
        };
        if history.is_contradicted() {
            return Completion::Unknown;
        }
        let is_polymorphic = thread.ambiguous.is_polymorphic(cut.function);
        let evidence = history.evidence(time, now);
        let is_believed = evidence.observations >= MIN_OBSERVATIONS;
        let is_shared = (history.fingerprint).is_some_and(|known| self.models.believes(known));
        let is_seen = match (evidence.before, evidence.after) {
            (Some(_), Some(_)) => is_believed || is_shared,
            (Some(age), None) | (None, Some(age)) if !is_polymorphic => {
                (is_believed && age <= MAX_AGE_ONE_SIDED)
                    || (is_shared && age <= MAX_AGE_CROSS_THREAD)
            }
            _ => false,
        };
        match is_seen && !evidence.is_disputed {
            true => Completion::Callers(&history.callers, root),
            false => Completion::Unknown,
        }
    }

    /// Removes a thread that ended or executed another program.
    pub fn forget(&mut self, thread: u64) {
        if let Some(thread) = self.threads.remove(&thread) {
            self.frames -= thread.frames();
        }
    }
}

impl ThreadHistory {
    fn frames(&self) -> usize {
        let histories = self.cut_points.values();
        self.last.len()
            + histories
                .map(|history| history.callers.len())
                .sum::<usize>()
    }
}

struct CutCopy<'a, C> {
    cut: CutPoint,
    frames: &'a [StackFrame],
    slots: Slots,
    code: &'a C,
    /// True if a signal was handled, so the frames may be on two stacks.
    has_other_stack: bool,
}

impl<'a, C: CodeLookup> CutCopy<'a, C> {
    fn new(cut: CutPoint, frames: &'a [StackFrame], code: &'a C) -> Self {
        let is_interrupted = |frame: &StackFrame| frame.kind == FrameKind::Interrupted;
        Self {
            cut,
            frames,
            slots: Slots::new(frames, 0),
            code,
            has_other_stack: frames.iter().any(is_interrupted),
        }
    }

    /// Returns whether a cut point is on the stack. `None` if the copy does not show it.
    fn shows(&self, other: CutPoint) -> Option<bool> {
        if other.slot == self.cut.slot {
            return Some(other.function == self.cut.function);
        }
        if other.slot > self.cut.slot || self.has_other_stack {
            return None;
        }
        let at = self.slots.find(other.slot);
        let called = at.and_then(|at| self.frames.get(at.checked_sub(1)?));
        let function = called.and_then(|frame| self.code.function_of(frame));
        Some(function == Some(other.function))
    }
}

/// Index of slots. A thread may have hundreds of cut points, and a stack as many frames.
#[derive(Default)]
struct Slots {
    /// Frame index by slot; the innermost one's of a shared slot.
    by_slot: FxHashMap<u64, usize>,
}

impl Slots {
    fn new(frames: &[StackFrame], from: usize) -> Self {
        let all = frames.iter().enumerate().skip(from).rev();
        Self {
            by_slot: all.map(|(at, frame)| (frame.slot, at)).collect(),
        }
    }

    fn find(&self, slot: u64) -> Option<usize> {
        self.by_slot.get(&slot).copied()
    }
}

fn apply(
    (observation, slots): (&StackObservation<'_>, &Slots),
    cut: CutPoint,
    history: &mut CallerHistory,
    (thread, last_ran): (u64, u64),
    models: &mut CrossThreadModels,
    code: &impl CodeLookup,
) {
    let &StackObservation {
        frames,
        observed_from,
        root,
        begun,
        time,
    } = observation;
    let Some(seen) = frames.get(observed_from..).filter(|seen| !seen.is_empty()) else {
        return;
    };
    let is_copy = observed_from == 0;
    let look = Look {
        begun,
        time,
        last_ran,
    };
    let mut is_gone = || match is_copy {
        true => history.sampled(time, false),
        false => history.looked(look, false),
    };
    match slots.find(cut.slot) {
        Some(at) => {
            let called = at.checked_sub(1).and_then(|at| frames.get(at));
            let called = called.and_then(|frame| code.function_of(frame));
            if called != Some(cut.function) {
                is_gone();
                return;
            }
            let callers = &frames[at..];
            if history.callers.is_empty() {
                let fingerprint =
                    Fingerprint::new(cut, callers, |address| code.image_offset(address));
                fingerprint.inspect(|fingerprint| models.register(*fingerprint));
                history.fingerprint = fingerprint;
            }
            history.observe(callers, root, look, is_copy);
            report(thread, history, models);
        }
        // The slot holds another activation or is unused.
        None if is_copy || cut.slot > seen[0].slot => is_gone(),
        None => {}
    }
}

fn report(thread: u64, history: &mut CallerHistory, models: &mut CrossThreadModels) {
    let Some(fingerprint) = history.fingerprint else {
        return;
    };
    let now = (history.observations, history.ambiguous);
    let new = history.observations.saturating_sub(history.reported.0);
    if now != history.reported && models.count(thread, fingerprint, history.ambiguous, new) {
        history.reported = now;
    }
}
