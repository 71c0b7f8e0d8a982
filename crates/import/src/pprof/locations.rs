//! Converts locations and their lines to frames.

use rprof_profile::limits::MAX_FRAMES;
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

/// A function. Names are string indices, because many functions may share a long name.
struct FunctionOf {
    name: u64,
    file: u64,
    start_line: u32,
}

/// Approximate size of an entry of the tables below in bytes.
const ENTRY_BYTES: usize = 96;

/// Frames of a location, outermost first, for use as a leaf and as a caller.
pub(super) struct Location {
    pub(super) leaf: Vec<FrameId>,
    pub(super) caller: Vec<FrameId>,
}

pub(super) fn locations(
    parts: &Parts<'_>,
    out: &mut Collector<'_>,
) -> Result<FxHashMap<u64, Location>, String> {
    let mut mappings = FxHashMap::default();
    for message in &parts.mappings {
        let [_, id, start, _, offset, name, build_id] = numbers(message)?;
        let build_id = parts.string(build_id)?;
        out.work(build_id.len())?;
        let object = out.object(&parts.string(name)?, BuildId::from_hex(&build_id))?;
        out.hold(ENTRY_BYTES)?;
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
            0 => system_name,
            name => name,
        };
        let function = FunctionOf {
            name,
            file,
            start_line: u32::try_from(start_line).unwrap_or(0),
        };
        out.hold(ENTRY_BYTES)?;
        functions.insert(id, function);
    }
    let unknown = out.object("[unknown]", None)?;
    let mut locations = FxHashMap::default();
    // Functions by string index of their name.
    let mut known: FxHashMap<(u64, ObjectId), FunctionId> = FxHashMap::default();
    let mut files: FxHashMap<u64, FileId> = FxHashMap::default();
    for message in &parts.locations {
        let (mut id, mut mapping, mut address) = (0, 0, 0);
        let mut lines = Vec::new();
        for field in Fields::new(message) {
            match field? {
                (1, value) => id = value.number(),
                (2, value) => mapping = value.number(),
                (3, value) => address = value.number(),
                // The innermost call comes first. Callers beyond the limit are dropped anyway.
                (4, value) if lines.len() <= MAX_FRAMES => lines.push(value.bytes()),
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
        // The innermost call comes first.
        for (depth, line) in lines.iter().rev().enumerate() {
            let [_, function, line, column] = numbers(line)?;
            let of = functions.get(&function);
            let of = of.ok_or_else(|| {
                format!("a location refers to function {function}, which does not exist")
            })?;
            let key = (of.name, object);
            let function = match known.get(&key) {
                Some(known) => *known,
                None => {
                    let made = out.function(&parts.string(of.name)?, object)?;
                    out.hold(ENTRY_BYTES)?;
                    known.insert(key, made);
                    made
                }
            };
            let file = match (of.file, files.get(&of.file)) {
                (0, _) => None,
                (_, Some(known)) => Some(*known),
                (number, None) => {
                    let made = out.file(&parts.string(number)?)?;
                    out.hold(ENTRY_BYTES)?;
                    files.insert(number, made);
                    Some(made)
                }
            };
            let small = |number: u64| u32::try_from(number).unwrap_or(0);
            let line = file.filter(|_| line != 0).map(|file| Line {
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
        out.hold(ENTRY_BYTES + 8 * lines.len())?;
        if lines.is_empty() {
            // An unsymbolized location has only an address.
            let function = out.function("", object)?;
            let mut frame = |address| {
                out.frame(Frame {
                    address: Some(address),
                    ..Frame::of(function)
                })
            };
            location
                .leaf
                .push(frame(FrameAddress::InstructionPointer(in_file))?);
            location
                .caller
                .push(frame(FrameAddress::ReturnAddress(in_file.wrapping_add(1)))?);
        }
        if id == 0 || locations.insert(id, location).is_some() {
            return Err(format!("location id {id} is zero or used twice"));
        }
    }
    Ok(locations)
}
