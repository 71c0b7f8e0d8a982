//! Locations: an address with its function and the calls inlined into it.

use std::cmp::Reverse;

use rprof_profile::intern::Lists;
use rprof_profile::{FileId, FrameAddress, FunctionId, ObjectId, ObjectKind, Profile};
use rustc_hash::FxHashMap;

use crate::frame_lists::{FrameLists, ListedStack};
use crate::frame_ranks::FrameRanks;

/// Tables of mappings, locations and functions. Ids start at 1.
pub(crate) struct LocationTables {
    /// Objects, each with the end of its used range.
    pub(crate) mappings: Vec<(ObjectId, u64)>,
    pub(crate) locations: Vec<LocationRow>,
    pub(crate) functions: Vec<FunctionRow>,
}

pub(crate) struct LocationRow {
    pub(crate) mapping: u64,
    pub(crate) address: u64,
    /// Innermost call first.
    pub(crate) lines: Vec<LineRow>,
}

pub(crate) struct LineRow {
    pub(crate) function: u64,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

pub(crate) struct FunctionRow {
    pub(crate) id: FunctionId,
    pub(crate) file: Option<FileId>,
    /// First line; 0 if unknown.
    pub(crate) start_line: u32,
}

/// Locations of a profile, with ids from 1 in order of first use.
pub(crate) struct Locations<'p> {
    profile: &'p Profile,
    frames: FrameRanks<'p>,
    /// Location ids of all caller lists, concatenated, leaf first.
    ids_of_lists: Vec<u64>,
    /// Range of each caller list in `ids_of_lists`, once computed.
    of_lists: Vec<Option<(usize, usize)>>,
    /// Locations as lists of frame ranks, outermost first, in id order.
    known: Lists<u32>,
}

impl<'p> Locations<'p> {
    pub(crate) fn new(profile: &'p Profile, frames: FrameRanks<'p>) -> Locations<'p> {
        Locations {
            profile,
            frames,
            ids_of_lists: Vec::new(),
            of_lists: Vec::new(),
            known: Lists::default(),
        }
    }

    /// Clears the used locations. Ids start at 1 again.
    pub(crate) fn restart(&mut self) {
        self.known = Lists::default();
        self.of_lists.clear();
        self.ids_of_lists.clear();
    }

    /// Appends the ids of at most `most` innermost locations, leaf first. Returns true if there are
    /// more.
    pub(crate) fn ids(
        &mut self,
        lists: &FrameLists,
        stack: ListedStack,
        most: usize,
        ids: &mut Vec<u64>,
    ) -> bool {
        let (outer, inner) = (lists.list(stack.outer), lists.list(stack.inner));
        let begins_inlined = inner
            .first()
            .is_some_and(|rank| self.frames.frame(*rank).inline_depth > 0);
        if begins_inlined || most != usize::MAX {
            // The lists share a location, or the limit cuts them.
            return self.ids_of(&[outer, inner].concat(), most, ids);
        }
        self.ids_of(inner, most, ids);
        self.of_lists.resize(lists.len(), None);
        let at = stack.outer as usize;
        let (begin, end) = match self.of_lists[at] {
            Some(place) => place,
            None => {
                let mut all = std::mem::take(&mut self.ids_of_lists);
                let begin = all.len();
                self.ids_of(outer, most, &mut all);
                let place = (begin, all.len());
                self.ids_of_lists = all;
                self.of_lists[at] = Some(place);
                place
            }
        };
        ids.extend_from_slice(&self.ids_of_lists[begin..end]);
        false
    }

    fn ids_of(&mut self, frames: &[u32], most: usize, ids: &mut Vec<u64>) -> bool {
        let mut rest = frames;
        while !rest.is_empty() {
            if ids.len() == most {
                return true;
            }
            // An inlined call follows the frame of its function.
            let outer = |rank: &u32| self.frames.frame(*rank).inline_depth == 0;
            let begin = rest.iter().rposition(outer).unwrap_or(0);
            let (others, one) = rest.split_at(begin);
            rest = others;
            ids.push(u64::from(self.known.intern(one).0) + 1);
        }
        false
    }

    fn locations(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.known.len() as u32).map(|id| self.known.get(id))
    }

    pub(crate) fn tables(&self) -> LocationTables {
        let mappings = self.mappings();
        let numbers: FxHashMap<ObjectId, u64> = mappings
            .iter()
            .zip(1..)
            .map(|((object, _), id)| (*object, id))
            .collect();
        let mut known: FxHashMap<FunctionId, u64> = FxHashMap::default();
        let mut functions: Vec<FunctionRow> = Vec::new();
        let mut row = |location: &[u32]| {
            let outermost = self.frames.frame(location[0]);
            let object = self.profile.function(outermost.function).object;
            let line = |rank: &u32| {
                let frame = self.frames.frame(*rank);
                let number = *known.entry(frame.function).or_insert_with(|| {
                    let source = self.profile.function(frame.function).source.as_deref();
                    functions.push(FunctionRow {
                        id: frame.function,
                        file: source.and_then(|source| source.file),
                        start_line: source.map_or(0, |source| source.line),
                    });
                    functions.len() as u64
                });
                if let Some(function) = functions.get_mut(number as usize - 1) {
                    function.file = function.file.or(frame.line.map(|line| line.file));
                    // Readers see functions of one name as one.
                    if function.start_line == 0 {
                        function.start_line = frame.start_line;
                    }
                }
                LineRow {
                    function: number,
                    line: frame.line.map_or(0, |line| line.line),
                    column: frame.line.map_or(0, |line| line.column),
                }
            };
            LocationRow {
                mapping: numbers.get(&object).copied().unwrap_or(0),
                address: outermost.address.map_or(0, FrameAddress::lookup_address),
                lines: location.iter().rev().map(line).collect(),
            }
        };
        let locations = self.locations().map(&mut row).collect();
        LocationTables {
            mappings,
            locations,
            functions,
        }
    }

    /// Returns the objects with the end of their used range. The heaviest program is first, because
    /// readers take the first mapping for the main binary.
    fn mappings(&self) -> Vec<(ObjectId, u64)> {
        let mut ends: FxHashMap<ObjectId, u64> = FxHashMap::default();
        for location in self.locations() {
            let frame = self.frames.frame(location[0]);
            // A source file is not mapped.
            if self.profile.function(frame.function).source.is_some() {
                continue;
            }
            let end = ends
                .entry(self.profile.function(frame.function).object)
                .or_default();
            *end = (*end).max(
                frame
                    .address
                    .map_or(0, FrameAddress::lookup_address)
                    .saturating_add(1),
            );
        }
        let mut weights: FxHashMap<ObjectId, u64> = FxHashMap::default();
        for entry in &self.profile.aggregated {
            if let Some(leaf) = self.profile.stack(entry.stack).next_back() {
                let weight = weights
                    .entry(self.profile.function(leaf).object)
                    .or_default();
                *weight = weight.saturating_add(entry.weight);
            }
        }
        let mut mappings: Vec<(ObjectId, u64)> = ends.into_iter().collect();
        mappings.sort_by_key(|(id, _)| {
            let object = self.profile.object(*id);
            let is_program = object.kind == ObjectKind::File && !object.base_name().contains(".so");
            let weight = weights.get(id).copied().unwrap_or(0);
            (
                Reverse(is_program),
                Reverse(weight),
                object.name.clone(),
                *id,
            )
        });
        mappings
    }
}
