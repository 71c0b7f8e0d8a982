//! [`OuterFrames`]: what lies outside of a copy that ends before the root.
//!
//! Whoever has such a copy knows a *place*: the slot where the next return address stands, and the
//! function that was called from there. Who its callers were is known from other moments of the same
//! thread only: from copies that did reach the root, and from looks into the memory of the process,
//! where all that lies outside of the copy still stands if the thread has not returned to it.
//!
//! One such moment proves nothing about another. A function is called by one caller now and by
//! another one a moment later, at the same depth and with the same return addresses inside of it, and
//! nothing in the copy tells which. So a stack is completed only if
//!
//! - the callers were seen in four moments at least, between which the thread ran, and never others at
//!   this place;
//! - they were seen before and after: the last look before the sample and the first one after it
//!   found the very same activations (stack pointer and return address, up to the root);
//! - or on one side only, within ten milliseconds, because the place is new then, or the thread
//!   ended;
//! - or once, within a second, where the four moments are of several threads that are alike: with the same
//!   return addresses in the same images, as far from the beginning of the stack, and never others at
//!   that depth under the same function in any thread. So are programs that are started again and
//!   again.
//!
//! All samples wait for a fifth of a second ([`Verdict::Wait`]), or until their thread ends: what was seen
//! *later* counts against a stack as well as for it. Where callers change, that shows in
//! this time; a function that was seen with several callers at several places is one of those that
//! are called from everywhere (an interpreter's loop, a recursive walk), and is not believed on one
//! side at all.
//!
//! What remains is a caller that nobody ever saw: one that came and went between two looks, while
//! the other stood before and after it. `tests/unwind/deep_stacks.rs` has programs made to be like that.

mod known;
mod model;
#[cfg(test)]
mod tests;

use crate::{Frame, Root};
use known::Known;
use model::{Likeness, Models};
use rustc_hash::{FxHashMap, FxHashSet};

/// Looks that must have found the callers.
const READS: u32 = 4;

/// Time between two looks, in ns; those that come together count as one.
const APART: u64 = 500_000;

/// How far from a sample it was seen on the one side where it was, in ns.
const NEAR: u64 = 10_000_000;

/// The same, in ns, where other threads are like it.
const FAR: u64 = 1_000_000_000;

/// How long a sample waits, in ns, to be sure that nothing speaks against it.
const PATIENCE: u64 = 200_000_000;

/// Most frames that are kept, of all threads together.
const MAX_FRAMES: usize = 1 << 19;

/// Most places of a thread.
const MAX_PLACES: usize = 128;

/// Most doubtful places and functions of a thread. One with more has a stack that is never quiet.
const MAX_DOUBTFUL: usize = 1024;

/// Doubtful places from which on a function is one of many callers.
const SHIFTY: u32 = 2;

/// Where a return address is, and whatever tells the function apart that was called from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Address of the slot.
    pub slot: u64,
    /// The function.
    pub function: u64,
}

/// What becomes of a stack that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// These are its callers, the innermost first, and what shows that the last is the outermost.
    Callers(&'a [Frame], Root),
    /// Ask again later.
    Wait,
    /// It stays as it is.
    Unknown,
}

/// A stack of which all or the outer part was seen.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// All frames, the innermost first.
    pub frames: &'a [Frame],
    /// The first of them that was seen at that time: 0, or behind the end of a copy.
    pub from: usize,
    /// What shows that the last frame is the outermost.
    pub root: Root,
    /// When, in ns.
    pub time: u64,
}

/// What was seen of each thread's stack.
#[derive(Debug, Default)]
pub struct OuterFrames {
    threads: FxHashMap<u64, Thread>,
    models: Models,
    frames: usize,
}

/// What there is to know of code.
pub trait Functions {
    /// Whatever tells the function apart that a frame is of: its address.
    fn function_of(&self, frame: &Frame) -> Option<u64>;

    /// Which image an address is of, by a number that is the same for all processes, and where in it.
    fn in_file(&self, address: u64) -> Option<(u64, u64)>;
}

#[derive(Debug, Default)]
struct Thread {
    /// When it was sampled last: when it ran.
    ran: u64,
    /// What was seen last.
    last: Vec<Frame>,
    last_from: usize,
    last_time: u64,
    last_root: Option<Root>,
    places: FxHashMap<Place, Known>,
    doubtful: FxHashSet<Place>,
    /// Number of doubtful places of each function.
    shifty: FxHashMap<u64, u32>,
}

impl OuterFrames {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A stack of this thread was seen.
    pub fn saw(&mut self, id: u64, sighting: Sighting<'_>, functions: &impl Functions) {
        if self.frames > MAX_FRAMES {
            self.threads.clear();
            self.frames = 0;
        }
        let thread = self.threads.entry(id).or_default();
        self.frames -= thread.frames();
        if sighting.from == 0 {
            thread.ran = thread.ran.max(sighting.time);
        }
        let Thread {
            ran,
            places,
            doubtful,
            shifty,
            ..
        } = thread;
        for (place, known) in places {
            let was_doubtful = known.doubtful;
            sighting.tell(*place, known, (id, *ran), &mut self.models, functions);
            if known.doubtful && !was_doubtful {
                if doubtful.len() >= MAX_DOUBTFUL {
                    doubtful.clear();
                    shifty.clear();
                }
                doubtful.insert(*place);
                *shifty.entry(place.function).or_default() += 1;
            }
        }
        thread.last.clear();
        thread.last.extend_from_slice(sighting.frames);
        thread.last_from = sighting.from;
        thread.last_time = sighting.time;
        thread.last_root = Some(sighting.root);
        self.frames += thread.frames();
    }

    /// A stack of this thread was cut at a place, by a sample that was taken at `time`.
    pub fn cut(&mut self, id: u64, place: Place, time: u64, functions: &impl Functions) {
        let thread = self.threads.entry(id).or_default();
        thread.ran = thread.ran.max(time);
        if let Some(known) = thread.places.get_mut(&place) {
            known.used = time;
            return;
        }
        self.frames -= thread.frames();
        if thread.places.len() >= MAX_PLACES {
            let old = time.saturating_sub(2 * PATIENCE);
            thread.places.retain(|_, known| known.used >= old);
        }
        // One with so many at once goes from place to place too fast to be seen.
        if thread.places.len() >= 4 * MAX_PLACES {
            thread.places.clear();
        }
        let mut known = Known::default();
        known.used = time;
        known.doubtful = thread.doubtful.contains(&place);
        if let Some(root) = thread.last_root {
            let last = Sighting {
                frames: &thread.last,
                from: thread.last_from,
                root,
                time: thread.last_time,
            };
            last.tell(
                place,
                &mut known,
                (id, thread.ran),
                &mut self.models,
                functions,
            );
        }
        thread.places.insert(place, known);
        self.frames += thread.frames();
    }

    /// The callers that are known at a place, for a look whether they still stand there.
    #[must_use]
    pub fn callers_at(&self, thread: u64, place: Place) -> Option<&[Frame]> {
        let known = self.threads.get(&thread)?.places.get(&place)?;
        (!known.callers.is_empty()).then_some(&known.callers)
    }

    /// Whether another look at this place would tell something at `now`: there are callers, and nobody looked
    /// just before.
    #[must_use]
    pub fn wants_look(&self, thread: u64, place: Place, now: u64) -> bool {
        let thread = self.threads.get(&thread);
        let known = thread.and_then(|thread| thread.places.get(&place));
        known.is_some_and(|known| known.wants_look(now))
    }

    /// Whether [these](Self::callers_at) stood there at `time`.
    pub fn stood(&mut self, thread: u64, place: Place, stood: bool, time: u64) {
        let Some(of) = self.threads.get_mut(&thread) else {
            return;
        };
        if let Some(known) = of.places.get_mut(&place) {
            known.stood(time, stood, of.ran);
            self.models.count(thread, known);
        }
    }

    /// What becomes of a stack that was [cut](Self::cut) at this place at `time`. `now` is a time of the
    /// same clock up to which everything was seen; `u64::MAX` if nothing more will be.
    #[must_use]
    pub fn judge(&self, id: u64, place: Place, time: u64, now: u64) -> Verdict<'_> {
        if now.saturating_sub(time) < PATIENCE {
            return Verdict::Wait;
        }
        let Some(thread) = self.threads.get(&id) else {
            return Verdict::Unknown;
        };
        let Some(known) = thread.places.get(&place) else {
            return Verdict::Unknown;
        };
        let Some(root) = known.root else {
            return Verdict::Unknown;
        };
        let is_shifty = (thread.shifty.get(&place.function)).is_some_and(|n| *n >= SHIFTY);
        if known.doubtful {
            return Verdict::Unknown;
        }
        let is_believed = known.reads >= READS;
        let is_alike = (known.likeness).is_some_and(|likeness| self.models.believes(likeness));
        let is_seen = match known.around(time) {
            (Some(_), Some(_)) => is_believed || is_alike,
            (Some(one), None) | (None, Some(one)) if !is_shifty => {
                (is_believed && one <= NEAR) || (is_alike && one <= FAR)
            }
            _ => false,
        };
        match is_seen {
            true => Verdict::Callers(&known.callers, root),
            false => Verdict::Unknown,
        }
    }

    /// Forgets a thread, because it ended or executes another program.
    pub fn forget(&mut self, thread: u64) {
        if let Some(thread) = self.threads.remove(&thread) {
            self.frames -= thread.frames();
        }
    }
}

impl Thread {
    fn frames(&self) -> usize {
        let places = self.places.values();
        self.last.len() + places.map(|known| known.callers.len()).sum::<usize>()
    }
}

impl Sighting<'_> {
    /// Tells what it shows of a place.
    fn tell(
        &self,
        place: Place,
        known: &mut Known,
        (thread, ran): (u64, u64),
        models: &mut Models,
        functions: &impl Functions,
    ) {
        let Some(seen) = self.frames.get(self.from..).filter(|seen| !seen.is_empty()) else {
            return;
        };
        match seen.iter().position(|frame| frame.slot == place.slot) {
            Some(at) => {
                let called = (self.from + at)
                    .checked_sub(1)
                    .and_then(|at| self.frames.get(at));
                let called = called.and_then(|frame| functions.function_of(frame));
                if called != Some(place.function) {
                    known.stood(self.time, false, ran);
                    return;
                }
                let callers = &seen[at..];
                if known.callers.is_empty() {
                    known.likeness =
                        Likeness::of(place, callers, |address| functions.in_file(address));
                    known.likeness.inspect(|likeness| models.found(*likeness));
                }
                known.found(callers, self.root, self.time, ran);
                models.count(thread, known);
            }
            // Something else lies there, or nothing any more.
            None if self.from == 0 || place.slot > seen[0].slot => {
                known.stood(self.time, false, ran);
            }
            None => {}
        }
    }
}
