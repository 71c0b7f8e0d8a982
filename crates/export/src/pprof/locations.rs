//! Frames as locations: an address with the function that lies there and the calls that were inlined into it.

use std::cmp::Reverse;
use std::io;

use rprof_profile::{
    Frame, FrameAddress, FrameId, Function, FunctionId, ObjectId, ObjectKind, Profile,
};
use rustc_hash::FxHashMap;

use super::fields::{flag, part, signed, unsigned};
use super::message::Message;
use crate::frame_text::unnamed;
use crate::names::CleanNames;

/// Locations of a profile, numbered from 1 in the order of their first use.
pub(super) struct Locations<'p> {
    profile: &'p Profile,
    /// Frames in the order of object, address, inline depth and name.
    sorted: Vec<FrameId>,
    /// Rank of each frame in that order.
    ranks: FxHashMap<FrameId, u32>,
    /// Id of a location by the ranks of its frames, the outermost first.
    ids: FxHashMap<Vec<u32>, u64>,
    /// Ranks of each location, by id.
    known: Vec<Vec<u32>>,
}

impl<'p> Locations<'p> {
    pub(super) fn new(profile: &'p Profile) -> Locations<'p> {
        let stacks = profile.aggregated.iter().map(|entry| entry.stack);
        let mut sorted: Vec<FrameId> = stacks.flat_map(|stack| profile.frames(stack)).collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.sort_by_cached_key(|id| {
            let frame = profile.frame(*id);
            let function = profile.function(frame.function);
            let object = &profile.object(function.object).name;
            let address = frame.address.map(FrameAddress::lookup_address);
            let name = function.name.as_deref().unwrap_or_default();
            (
                object.clone(),
                address,
                frame.inline_depth,
                Box::<str>::from(name),
                frame.line,
            )
        });
        let ranks = (sorted.iter().enumerate()).map(|(rank, id)| (*id, rank as u32));
        Locations {
            profile,
            ranks: ranks.collect(),
            sorted,
            ids: FxHashMap::default(),
            known: Vec::new(),
        }
    }

    /// Returns the rank of a frame that is in a stack.
    pub(super) fn rank(&self, frame: FrameId) -> u32 {
        self.ranks.get(&frame).copied().unwrap_or(u32::MAX)
    }

    fn frame(&self, rank: u32) -> Frame {
        self.profile.frame(self.sorted[rank as usize])
    }

    /// Returns the ids of the locations of a stack, root first.
    pub(super) fn ids(&mut self, stack: &[u32]) -> Vec<u64> {
        let mut ids = Vec::with_capacity(stack.len());
        let mut rest = stack;
        while !rest.is_empty() {
            // An inlined call stands behind that of the function that it was inlined into.
            let inlined = |rank: &&u32| self.frame(**rank).inline_depth > 0;
            let end = 1 + rest[1..].iter().take_while(inlined).count();
            let (one, others) = rest.split_at(end);
            rest = others;
            ids.push(match self.ids.get(one) {
                Some(id) => *id,
                None => {
                    self.known.push(one.to_vec());
                    let id = self.known.len() as u64;
                    self.ids.insert(one.to_vec(), id);
                    id
                }
            });
        }
        ids
    }

    /// Writes mappings, locations and functions.
    pub(super) fn write(&self, message: &mut Message<'_>) -> io::Result<()> {
        let mappings = self.mappings();
        let numbers: FxHashMap<ObjectId, u64> = mappings
            .iter()
            .zip(1..)
            .map(|((object, _), id)| (*object, id))
            .collect();
        for ((object, limit), id) in mappings.iter().zip(1..) {
            self.write_mapping(id, *object, *limit, message)?;
        }
        let mut functions: FxHashMap<FunctionId, u64> = FxHashMap::default();
        let mut files: Vec<(FunctionId, Option<rprof_profile::FileId>)> = Vec::new();
        for (location, id) in self.known.iter().zip(1..) {
            let mut bytes = Vec::new();
            unsigned(1, id, &mut bytes);
            let outermost = self.frame(location[0]);
            let object = self.profile.function(outermost.function).object;
            unsigned(2, numbers.get(&object).copied().unwrap_or(0), &mut bytes);
            let address = outermost.address.map_or(0, FrameAddress::lookup_address);
            unsigned(3, address, &mut bytes);
            // The innermost call first.
            for rank in location.iter().rev() {
                let frame = self.frame(*rank);
                let next = functions.len() as u64 + 1;
                let function = *functions.entry(frame.function).or_insert_with(|| {
                    files.push((frame.function, None));
                    next
                });
                if let Some(line) = frame.line {
                    files[function as usize - 1].1.get_or_insert(line.file);
                }
                let mut line = Vec::new();
                unsigned(1, function, &mut line);
                signed(
                    2,
                    frame.line.map_or(0, |line| i64::from(line.line)),
                    &mut line,
                );
                signed(
                    3,
                    frame.line.map_or(0, |line| i64::from(line.column)),
                    &mut line,
                );
                part(4, &line, &mut bytes);
            }
            message.field(4, &bytes)?;
        }
        for ((function, file), id) in files.iter().zip(1..) {
            self.write_function(id, *function, *file, message)?;
        }
        Ok(())
    }

    /// Returns the objects that locations lie in, with the end of what is used of each. The program that has most of the weight
    /// is the first, which readers take for the one that was run.
    fn mappings(&self) -> Vec<(ObjectId, u64)> {
        let mut ends: FxHashMap<ObjectId, u64> = FxHashMap::default();
        for location in &self.known {
            let frame = self.frame(location[0]);
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

    fn write_mapping(
        &self,
        id: u64,
        object: ObjectId,
        limit: u64,
        message: &mut Message<'_>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        unsigned(1, id, &mut bytes);
        unsigned(3, limit, &mut bytes);
        let name = message
            .strings
            .index(&CleanNames::new(self.profile).object(object));
        signed(5, name, &mut bytes);
        if let Some(build_id) = &self.profile.object(object).build_id {
            signed(6, message.strings.index(&build_id.to_string()), &mut bytes);
        }
        for said in 7..=10 {
            flag(said, true, &mut bytes);
        }
        message.field(3, &bytes)
    }

    fn write_function(
        &self,
        id: u64,
        function: FunctionId,
        file: Option<rprof_profile::FileId>,
        message: &mut Message<'_>,
    ) -> io::Result<()> {
        let names = CleanNames::new(self.profile);
        let Function { object, .. } = self.profile.function(function);
        let name = match names.function(function) {
            Some(name) => name.into_owned(),
            None => unnamed(self.profile, *object),
        };
        let mut bytes = Vec::new();
        unsigned(1, id, &mut bytes);
        let name = message.strings.index(&name);
        signed(2, name, &mut bytes);
        // Without a name in the symbol table, which readers would take for one to demangle.
        if let Some(file) = file {
            let path = crate::clean::clean(&self.profile.files[file.0 as usize]).into_owned();
            signed(4, message.strings.index(&path), &mut bytes);
        }
        message.field(5, &bytes)
    }
}
