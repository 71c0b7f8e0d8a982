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
//! A look with code objects that are not proven is no evidence for callers, but against others. Code
//! that `exec` makes is seldom proven, and its functions have other callers at the same places.

use rustc_hash::FxHashMap;

/// Minimum number of equal looks at a place, if none of them is of the sample's own time.
const MIN_LOOKS: u32 = 2;

/// Minimum number of looks at a part of a stack for its constant outer frames, for any innermost
/// frame.
const MIN_LOOKS_AT_PART: u32 = 16;

/// Number of equal looks from which further ones are not counted.
const ENOUGH: u32 = 1024;

/// Maximum number of places of a thread. At the limit all are forgotten.
const MAX_PLACES: usize = 1 << 14;

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

#[derive(Debug, Default)]
pub(super) struct Looks {
    places: FxHashMap<Place, Seen>,
    edges: FxHashMap<Place, Edge>,
    parts: FxHashMap<Part, Seen>,
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
    /// Adds a look: the callers of a place up to the end of its part, innermost first, and whether
    /// all code objects are proven. It counts for any outer function as well.
    pub(super) fn observe(&mut self, place: Place, callers: &[Caller], is_proven: bool) {
        self.observe_part(place, callers, is_proven);
        if place.part != place.part.of_any() {
            let part = place.part.of_any();
            self.observe_part(Place { part, ..place }, callers, is_proven);
        }
    }

    fn observe_part(&mut self, place: Place, callers: &[Caller], is_proven: bool) {
        let seen = self.places.entry(place).or_default();
        if seen.same >= ENOUGH && seen.callers == callers {
            return;
        }
        seen.add(callers, is_proven);
        let part = self.parts.entry(place.part).or_default();
        part.add(callers, is_proven);
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
        } else if let Some(edge) = self.edges.get_mut(&place)
            && edge.caller.is_none()
        {
            edge.others = edge.others.saturating_add(1);
        }
    }

    fn observe_edge(&mut self, inner: Place, caller: Option<Caller>, is_proven: bool) {
        let edge = self.edges.entry(inner).or_insert(Edge {
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
        if self.edges.len() >= MAX_PLACES || self.places.len() >= MAX_PLACES {
            *self = Self::default();
        }
    }

    /// Replaces `callers` by the believed ones of a place, innermost first. `None` is a gap, of
    /// unknown length. `own` are the callers in the sample's own look, if it was at this place, and
    /// whether the look was soon after the sample. Others are never believed then, however frequent.
    pub(super) fn callers(
        &self,
        place: Place,
        own: Option<(&[Caller], bool)>,
        callers: &mut Vec<Option<Caller>>,
    ) {
        callers.clear();
        let seen = self.places.get(&place);
        let is_unusual = (own.zip(seen)).is_some_and(|((own, _), seen)| seen.callers != own);
        if let Some(seen) = seen
            && !seen.is_doubtful
            && !is_unusual
            && (own.is_some_and(|(_, is_soon)| is_soon) || seen.same >= MIN_LOOKS)
        {
            callers.extend(seen.callers.iter().copied().map(Some));
            return;
        }
        let mut inner = place;
        while !is_unusual
            && let Some(edge) = self.edges.get(&inner)
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
        let of_part = || {
            let seen = self.parts.get(&place.part);
            seen.filter(|seen| seen.looks() >= MIN_LOOKS_AT_PART)
        };
        if let Some(seen) = of_place.or_else(of_part) {
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
        let seen = self.parts.get(&part);
        if let Some(seen) = seen.filter(|seen| seen.looks() >= MIN_LOOKS_AT_PART) {
            callers.extend(seen.common().iter().copied().map(Some));
        }
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
        looks.callers(place, own.map(|own| (own, true)), &mut found);
        (found.iter())
            .map(|caller| caller.map_or(0, |caller| caller.frame))
            .collect()
    }

    #[test]
    fn callers_are_believed_if_all_looks_agree() {
        let mut looks = Looks::default();
        let usual = &[frame(2), frame(1)][..];
        looks.observe(place(3), usual, true);
        assert_eq!(callers(&looks, place(3), None), [0]);
        assert_eq!(callers(&looks, place(3), Some(usual)), [2, 1]);
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
        looks.observe(place(6), &[frame(5), frame(3)], true);
        looks.observe(place(7), &[frame(5), frame(3)], true);
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
        assert_eq!(callers(&looks, place(3), Some(&usual)), [2, 1]);
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
