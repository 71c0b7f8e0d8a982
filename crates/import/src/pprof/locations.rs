//! Locations with their lines, as frames.

use std::borrow::Cow;

use rprof_profile::{FileId, Frame, FrameAddress, FrameId, FunctionId, Line, ObjectId};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use super::parts::{Parts, numbers};
use crate::collector::Collector;
use crate::wire::Fields;

struct Mapping {
    object: ObjectId,
    start: u64,
    offset: u64,
}

struct FunctionOf<'a> {
    name: Cow<'a, str>,
    file: Option<FileId>,
    start_line: u32,
}

/// Frames of a location, outermost first, with and without the address being one of a call.
pub(super) struct Location {
    pub(super) leaf: Vec<FrameId>,
    pub(super) caller: Vec<FrameId>,
}

/// Returns the locations by their ids.
pub(super) fn locations(
    parts: &Parts<'_>,
    out: &mut Collector<'_>,
) -> Result<FxHashMap<u64, Location>, String> {
    let mut mappings = FxHashMap::default();
    for message in &parts.mappings {
        let [_, id, start, _, offset, name, build_id] = numbers(message)?;
        let build_id = BuildId::from_hex(&parts.string(build_id)?);
        let object = out.object(&parts.string(name)?, build_id)?;
        mappings.insert(
            id,
            Mapping {
                object,
                start,
                offset,
            },
        );
    }
    let mut functions = FxHashMap::default();
    for message in &parts.functions {
        let [_, id, name, system_name, file, start_line] = numbers(message)?;
        let name = match name {
            0 => parts.string(system_name)?,
            name => parts.string(name)?,
        };
        let file = match file {
            0 => None,
            file => Some(out.file(&parts.string(file)?)?),
        };
        let function = FunctionOf {
            name,
            file,
            start_line: u32::try_from(start_line).unwrap_or(0),
        };
        functions.insert(id, function);
    }
    let unknown = out.object("[unknown]", None)?;
    let mut locations = FxHashMap::default();
    let mut known: FxHashMap<(u64, ObjectId), FunctionId> = FxHashMap::default();
    for message in &parts.locations {
        let (mut id, mut mapping, mut address) = (0, 0, 0);
        let mut lines = Vec::new();
        for field in Fields::new(message) {
            match field? {
                (1, value) => id = value.number(),
                (2, value) => mapping = value.number(),
                (3, value) => address = value.number(),
                (4, value) => lines.push(value.bytes()),
                _ => {}
            }
        }
        let mapping = mappings.get(&mapping);
        let object = mapping.map_or(unknown, |mapping| mapping.object);
        let in_file = mapping.map_or(address, |mapping| {
            address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.offset)
        });
        let mut location = Location {
            leaf: Vec::new(),
            caller: Vec::new(),
        };
        // The innermost call stands first.
        for (depth, line) in lines.iter().rev().enumerate() {
            let [_, function, line, column] = numbers(line)?;
            let of = functions.get(&function);
            let of = of.ok_or_else(|| {
                format!("a location names function {function}, which there is not")
            })?;
            let key = (function, object);
            let function = match known.get(&key) {
                Some(known) => *known,
                None => {
                    let made = out.function(&of.name, object)?;
                    known.insert(key, made);
                    made
                }
            };
            let small = |number: u64| u32::try_from(number).unwrap_or(0);
            let line = (of.file).filter(|_| line != 0).map(|file| Line {
                file,
                line: small(line),
                column: small(column),
            });
            let mut frame = |address| {
                out.frame(Frame {
                    address,
                    line,
                    inline_depth: depth as u32,
                    start_line: of.start_line,
                    ..Frame::of(function)
                })
            };
            let has_address = address != 0;
            let leaf = has_address.then_some(FrameAddress::InstructionPointer(in_file));
            let caller = FrameAddress::ReturnAddress(in_file.wrapping_add(1));
            location.leaf.push(frame(leaf)?);
            location.caller.push(frame(has_address.then_some(caller))?);
        }
        if lines.is_empty() {
            let function = out.function(&format!("{in_file:#x}"), object)?;
            let frame = out.frame(Frame::of(function))?;
            location.leaf.push(frame);
            location.caller.push(frame);
        }
        if id == 0 || locations.insert(id, location).is_some() {
            return Err(format!("two locations have the id {id}, or one has none"));
        }
    }
    Ok(locations)
}
