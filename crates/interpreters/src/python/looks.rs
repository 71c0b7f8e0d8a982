//! [`Looks`]: observed callers of Python frames.
//!
//! Callers are in memory that is read after the sample, so they may have changed. A look is
//! evidence for callers at a *place*: the address and function of a frame, and the part of the
//! stack that it belongs to. Looks that contradict each other prove nothing. Three kinds of
//! callers are believed, in this order:
//!
//! 1. all callers of the place, if the looks at it agree;
//! 2. one caller after the other, as long as the looks at each place agree;
//! 3. the outer callers that all looks at the part of the stack had in common.
//!
//! Threads with the same outermost functions share the first two. A server may start a thread for
//! each request, and such a thread has no time for looks of its own. But its stacks grow as those of
//! earlier threads did, so places are [relative](Origin) to the outermost frame. The third kind
//! belongs to one thread.
//!
//! A look with code objects that are not proven is no evidence for callers, but against others. Code
//! that `exec` makes is seldom proven, and its functions have other callers at the same places.

use rustc_hash::FxHashMap;

/// Minimum number of equal looks at a place. Two callers may take turns there, and the first looks
/// may have one of them only.
const MIN_LOOKS: u32 = 3;

/// Minimum number of looks at a part of a stack for its constant outer frames, for any innermost
/// frame.
const MIN_LOOKS_AT_PART: u32 = 16;

/// Number of equal looks from which further ones are not counted.
const ENOUGH: u32 = 1024;

/// Maximum number of places of a process. At the limit all are forgotten.
const MAX_PLACES: usize = 1 << 16;

/// Maximum number of callers of a look that are places themselves.
const MAX_CALLERS: usize = 256;

/// Part of a stack that one native frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    /// Canonical frame address of the native frame.
    pub(super) native: u64,
    /// Innermost Python frame of the next outer part; 0 for none.
    pub(super) outer: u64,
    /// [Number](super::codes::Codes::number) of the function that runs there, or [`ANY`](Self::ANY).
    /// Functions of equal size take turns at one address, and call others in native code.
    pub(super) function: u64,
}

impl Part {
    /// Number of an outer function that is not known.
    pub(super) const ANY: u64 = u64::MAX;

    /// Returns the part for any outer function.
    pub(super) const fn of_any(self) -> Self {
        let function = Self::ANY;
        Self { function, ..self }
    }
}

/// A Python frame: its address, which is 0 for generators because they move, and its code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) frame: u64,
    pub(super) code: u64,
    /// [Number](super::codes::Codes::number) of the code object.
    pub(super) number: u64,
}

/// A Python frame of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) part: Part,
    pub(super) frame: Caller,
}

/// Beginning of a thread's stacks: its outermost native frame and its outermost Python frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// Number of the threads with the same outermost functions, or of the thread.
    pub(super) kind: u64,
    /// Canonical frame address of the outermost native frame.
    pub(super) native: u64,
    /// Address of the outermost Python frame.
    pub(super) frame: u64,
}

impl Origin {
    /// Returns an origin that no other thread has.
    const fn of_thread(thread: u64) -> Self {
        Self {
            kind: thread,
            native: 0,
            frame: 0,
        }
    }

    /// Returns the distance of a frame; 0 stays 0.
    const fn distance(self, frame: u64) -> u64 {
        match frame {
            0 => 0,
            // The outermost frame itself is no missing frame.
            frame => frame.wrapping_sub(self.frame).wrapping_add(1),
        }
    }

    const fn part(self, part: Part) -> Part {
        Part {
            native: part.native.wrapping_sub(self.native),
            outer: self.distance(part.outer),
            function: part.function,
        }
    }

    const fn caller(self, caller: Caller) -> Caller {
        Caller {
            frame: self.distance(caller.frame),
            ..caller
        }
    }

    fn callers(self, callers: &[Caller]) -> Vec<Caller> {
        callers.iter().map(|caller| self.caller(*caller)).collect()
    }

    const fn place(self, place: Place) -> Place {
        Place {
            part: self.part(place.part),
            frame: self.caller(place.frame),
        }
    }
}

/// Looks of a process. Maps have relative places, and the kind of thread.
#[derive(Debug, Default)]
pub(super) struct Looks {
    places: FxHashMap<(u64, Place), Seen>,
    edges: FxHashMap<(u64, Place), Edge>,
    /// By thread.
    parts: FxHashMap<u64, FxHashMap<Part, Seen>>,
    /// Number of `parts` of all threads.
    parts_len: usize,
    /// Thread of the next looks and callers.
    thread: u64,
    origin: Origin,
}

#[derive(Debug, Default)]
struct Seen {
    /// Callers of most looks, innermost first.
    callers: Vec<Caller>,
    same: u32,
    others: u32,
    /// Number of the last `callers` that all looks have in common.
    common: usize,
    /// True once there was a look.
    is_used: bool,
    /// True once two looks differed.
    is_doubtful: bool,
}

/// Caller of a place; `None` for the end of the part.
#[derive(Debug)]
struct Edge {
    caller: Option<Caller>,
    same: u32,
    others: u32,
}

impl Looks {
    /// Sets the thread of the next looks and callers, with its origin if that is known.
    pub(super) fn begin(&mut self, thread: u64, origin: Option<Origin>) {
        self.thread = thread;
        self.origin = origin.unwrap_or_else(|| Origin::of_thread(thread));
    }

    pub(super) fn forget_thread(&mut self, thread: u64) {
        let parts = self.parts.remove(&thread);
        let forgotten = parts.map_or(0, |parts| parts.len());
        self.parts_len = self.parts_len.saturating_sub(forgotten);
    }

    /// Adds a look: the callers of a place up to the end of its part, innermost first, and whether
    /// all code objects are proven. It counts for any outer function as well.
    pub(super) fn observe(&mut self, place: Place, callers: &[Caller], is_proven: bool) {
        let (place, callers) = (self.origin.place(place), &self.origin.callers(callers));
        self.observe_part(place, callers, is_proven);
        if place.part != place.part.of_any() {
            let part = place.part.of_any();
            self.observe_part(Place { part, ..place }, callers, is_proven);
        }
    }

    fn observe_part(&mut self, place: Place, callers: &[Caller], is_proven: bool) {
        let seen = self.places.entry((self.origin.kind, place)).or_default();
        if seen.same >= ENOUGH && seen.callers == callers {
            return;
        }
        seen.add(callers, is_proven);
        let parts = self.parts.entry(self.thread).or_default();
        let before = parts.len();
        parts.entry(place.part).or_default().add(callers, is_proven);
        self.parts_len += parts.len() - before;
        let mut inner = place;
        let outer = callers.iter().copied().map(Some).chain([None]);
        for caller in outer.take(MAX_CALLERS) {
            self.observe_edge(inner, caller, is_proven);
            let Some(caller) = caller else {
                break;
            };
            inner.frame = caller;
        }
        self.limit();
    }

    /// Adds a look at a frame alone: whether it is without callers in its part.
    pub(super) fn observe_outermost(&mut self, place: Place, is_outermost: bool) {
        let place = self.origin.place(place);
        self.observe_outermost_part(place, is_outermost);
        if place.part != place.part.of_any() {
            let part = place.part.of_any();
            self.observe_outermost_part(Place { part, ..place }, is_outermost);
        }
    }

    fn observe_outermost_part(&mut self, place: Place, is_outermost: bool) {
        if is_outermost {
            self.observe_edge(place, None, true);
            self.limit();
        } else if let Some(edge) = self.edges.get_mut(&(self.origin.kind, place))
            && edge.caller.is_none()
        {
            edge.others = edge.others.saturating_add(1);
        }
    }

    fn observe_edge(&mut self, inner: Place, caller: Option<Caller>, is_proven: bool) {
        let edge = self.edges.entry((self.origin.kind, inner)).or_insert(Edge {
            caller,
            same: 0,
            others: 0,
        });
        match edge.caller == caller {
            true => edge.same = edge.same.saturating_add(is_proven.into()),
            false => edge.others = edge.others.saturating_add(1),
        }
    }

    fn limit(&mut self) {
        let lens = [self.edges.len(), self.places.len(), self.parts_len];
        if lens.into_iter().any(|len| len >= MAX_PLACES) {
            *self = Self {
                thread: self.thread,
                origin: self.origin,
                ..Self::default()
            };
        }
    }

    /// Replaces `callers` by the believed ones of a place, innermost first, with relative frames.
    /// `None` is a gap, of unknown length. `own` are the callers in the sample's own look, if it was at
    /// this place. Others are never believed then, however frequent.
    pub(super) fn callers(
        &self,
        place: Place,
        own: Option<&[Caller]>,
        callers: &mut Vec<Option<Caller>>,
    ) {
        callers.clear();
        let (place, kind) = (self.origin.place(place), self.origin.kind);
        let own = own.map(|own| self.origin.callers(own));
        let seen = self.places.get(&(kind, place));
        let is_unusual = (own.as_ref().zip(seen)).is_some_and(|(own, seen)| seen.callers != *own);
        if let Some(seen) = seen
            && !seen.is_doubtful
            && !is_unusual
            && seen.same >= MIN_LOOKS
        {
            callers.extend(seen.callers.iter().copied().map(Some));
            return;
        }
        let mut inner = place;
        while !is_unusual
            && let Some(edge) = self.edges.get(&(kind, inner))
            && edge.others == 0
            && edge.same >= MIN_LOOKS
            && callers.len() < MAX_CALLERS
        {
            let Some(caller) = edge.caller else {
                return;
            };
            callers.push(Some(caller));
            inner.frame = caller;
        }
        let known = callers.len();
        callers.push(None);
        let of_place = seen.filter(|seen| seen.looks() >= MIN_LOOKS);
        if let Some(seen) = of_place.or_else(|| self.of_part(place.part)) {
            let inside = callers.get(..known).unwrap_or_default();
            let is_new = |caller: &&Caller| !inside.contains(&Some(**caller));
            let outer: Vec<_> = (seen.common().iter().filter(is_new).copied().map(Some)).collect();
            callers.extend(outer);
        }
    }

    /// Replaces `callers` by a gap and the outer callers that are in all looks at a part.
    pub(super) fn outer_callers(&self, part: Part, callers: &mut Vec<Option<Caller>>) {
        callers.clear();
        callers.push(None);
        if let Some(seen) = self.of_part(self.origin.part(part)) {
            callers.extend(seen.common().iter().copied().map(Some));
        }
    }

    /// Returns the looks of the thread at a part of its stack, if they are enough for its constant
    /// outer frames.
    fn of_part(&self, part: Part) -> Option<&Seen> {
        let seen = self.parts.get(&self.thread)?.get(&part)?;
        (seen.looks() >= MIN_LOOKS_AT_PART).then_some(seen)
    }
}

impl Seen {
    fn add(&mut self, callers: &[Caller], is_proven: bool) {
        if !self.is_used {
            self.is_used = true;
            self.callers = callers.to_vec();
            self.common = callers.len();
        }
        if self.callers == callers {
            self.same = self.same.saturating_add(is_proven.into());
            return;
        }
        self.is_doubtful = true;
        let outer = self.callers.iter().rev().zip(callers.iter().rev());
        let same = outer.take_while(|(one, other)| one == other).count();
        self.common = self.common.min(same);
        self.others = self.others.saturating_add(is_proven.into());
        if self.others > self.same {
            self.callers = callers.to_vec();
            std::mem::swap(&mut self.same, &mut self.others);
        }
    }

    const fn looks(&self) -> u32 {
        self.same.saturating_add(self.others)
    }

    fn common(&self) -> &[Caller] {
        let inner = self.callers.len().saturating_sub(self.common);
        self.callers.get(inner..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part {
        native: 1,
        outer: 0,
        function: Part::ANY,
    };

    fn frame(number: u64) -> Caller {
        Caller {
            frame: number,
            code: 100 + number,
            number,
        }
    }

    fn place(number: u64) -> Place {
        Place {
            part: PART,
            frame: frame(number),
        }
    }

    fn callers(looks: &Looks, place: Place, own: Option<&[Caller]>) -> Vec<u64> {
        let mut found = Vec::new();
        looks.callers(place, own, &mut found);
        (found.iter())
            .map(|caller| caller.map_or(0, |caller| caller.number))
            .collect()
    }

    #[test]
    fn callers_are_believed_if_all_looks_agree() {
        let mut looks = Looks::default();
        let usual = &[frame(2), frame(1)][..];
        for _ in 1..MIN_LOOKS {
            looks.observe(place(3), usual, true);
            assert_eq!(callers(&looks, place(3), None), [0]);
            assert_eq!(callers(&looks, place(3), Some(usual)), [0]);
        }
        looks.observe(place(3), usual, true);
        assert_eq!(callers(&looks, place(3), None), [2, 1]);
        // Another caller at the same place: only the outer one is certain from now on.
        looks.observe(place(3), &[frame(9), frame(1)], true);
        looks.observe(place(3), &[frame(2), frame(1)], true);
        assert_eq!(callers(&looks, place(3), Some(usual)), [0, 1]);
    }

    #[test]
    fn callers_of_callers_are_joined_if_each_has_one_caller() {
        let mut looks = Looks::default();
        for _ in 0..MIN_LOOKS {
            looks.observe(place(4), &[frame(3)], true);
            looks.observe(place(3), &[], true);
        }
        // One other look is enough.
        let mut many = Looks::default();
        for _ in 0..ENOUGH {
            many.observe(place(3), &[frame(2)], true);
        }
        let (usual, unusual) = ([frame(2)], [frame(9)]);
        assert_eq!(callers(&many, place(3), None), [2]);
        many.observe(place(3), &unusual, true);
        assert_eq!(callers(&many, place(3), None), [0]);
        assert_eq!(callers(&many, place(3), Some(&unusual)), [0]);
        assert_eq!(callers(&many, place(3), Some(&usual)), [0]);
        // The frame appears as a caller only.
        for inner in 6..6 + u64::from(MIN_LOOKS) {
            looks.observe(place(inner), &[frame(5), frame(3)], true);
        }
        assert_eq!(callers(&looks, place(5), None), [3]);
        // With another caller there is none to believe.
        looks.observe(place(6), &[frame(5), frame(8), frame(3)], true);
        assert_eq!(callers(&looks, place(5), None), [0]);
    }

    #[test]
    fn a_look_that_is_not_proven_is_evidence_against_other_callers_only() {
        let (usual, other) = ([frame(2), frame(1)], [frame(9), frame(1)]);
        for is_first in [true, false] {
            let mut looks = Looks::default();
            if is_first {
                looks.observe(place(3), &other, false);
            }
            for _ in 0..MIN_LOOKS_AT_PART {
                looks.observe(place(3), &usual, true);
            }
            if !is_first {
                assert_eq!(callers(&looks, place(3), Some(&usual)), [2, 1]);
                looks.observe(place(3), &other, false);
            }
            assert_eq!(callers(&looks, place(3), Some(&usual)), [0, 1]);
            assert_eq!(callers(&looks, place(99), None), [0, 1]);
        }
        let mut looks = Looks::default();
        for _ in 0..MIN_LOOKS_AT_PART {
            looks.observe(place(3), &usual, false);
        }
        assert_eq!(callers(&looks, place(3), None), [0]);
        assert_eq!(callers(&looks, place(3), Some(&usual)), [0]);
    }

    #[test]
    fn a_look_below_another_function_is_no_evidence() {
        let below = |function| Place {
            part: Part {
                outer: 7,
                function,
                ..PART
            },
            frame: frame(3),
        };
        let mut looks = Looks::default();
        for _ in 0..MIN_LOOKS_AT_PART {
            looks.observe(below(1), &[frame(2)], true);
        }
        assert_eq!(callers(&looks, below(1), None), [2]);
        assert_eq!(callers(&looks, below(2), None), [0]);
        assert_eq!(callers(&looks, below(Part::ANY), None), [2]);
        looks.observe(below(2), &[frame(9)], true);
        assert_eq!(callers(&looks, below(1), None), [2]);
        assert_eq!(callers(&looks, below(Part::ANY), None), [0]);
    }

    #[test]
    fn a_thread_has_the_callers_of_earlier_threads_of_its_kind() {
        let at = |start: u64, number: u64| Place {
            part: Part {
                native: 10 * start,
                outer: 0,
                function: Part::ANY,
            },
            frame: Caller {
                frame: start + number,
                ..frame(number)
            },
        };
        let usual = |start: u64| [at(start, 2).frame, at(start, 1).frame];
        let of = |kind: u64, start: u64| {
            let (native, frame) = (10 * start, start);
            Some(Origin {
                kind,
                native,
                frame,
            })
        };
        let codes = |looks: &Looks, place: Place| {
            let mut found = Vec::new();
            looks.callers(place, None, &mut found);
            let code = |caller: &Option<Caller>| caller.map_or(0, |caller| caller.number);
            found.iter().map(code).collect::<Vec<u64>>()
        };
        let mut looks = Looks::default();
        looks.begin(1, of(5, 1000));
        for number in 0..u64::from(MIN_LOOKS_AT_PART) {
            looks.observe(at(1000, 20 + number), &usual(1000), true);
            looks.observe(at(1000, 3), &usual(1000), true);
        }
        assert_eq!(codes(&looks, at(1000, 99)), [0, 2, 1]);
        looks.forget_thread(1);
        looks.begin(2, of(5, 7000));
        assert_eq!(codes(&looks, at(7000, 3)), [2, 1]);
        assert_eq!(codes(&looks, at(7000, 99)), [0], "another thread's part");
        for (thread, origin) in [(3, of(6, 7000)), (4, None)] {
            looks.begin(thread, origin);
            assert_eq!(codes(&looks, at(7000, 3)), [0], "of another kind");
        }
        looks.begin(2, of(5, 7000));
        looks.observe(at(7000, 3), &[at(7000, 9).frame], true);
        assert_eq!(codes(&looks, at(7000, 3)), [0]);
    }

    #[test]
    fn a_new_place_has_the_constant_outer_callers_of_its_part() {
        let mut looks = Looks::default();
        for number in 0..u64::from(MIN_LOOKS_AT_PART) {
            looks.observe(place(20 + number), &[frame(5 + number % 2), frame(1)], true);
        }
        assert_eq!(callers(&looks, place(99), None), [0, 1]);
        let part = Part { outer: 7, ..PART };
        let other = Place {
            part,
            frame: frame(99),
        };
        assert_eq!(callers(&looks, other, Some(&[])), [0]);
    }
}
