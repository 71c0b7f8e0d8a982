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
struct StatedFunction {
    name: u64,
    file: u64,
    start_line: u32,
}

/// Approximate size of an entry of the tables below in bytes.
const ENTRY_BYTES: usize = 96;

/// Frames of a location, outermost first, for use as a leaf and as a caller.
#[derive(Default)]
pub(super) struct Location {
    pub(super) leaf: Vec<FrameId>,
    pub(super) caller: Vec<FrameId>,
}

impl Location {
    /// Adds a frame in both uses. `in_file` is its address, unless it has none.
    fn push(
        &mut self,
        frame: Frame,
        in_file: Option<u64>,
        out: &mut Collector<'_>,
    ) -> Result<(), String> {
        let mut at = |address| out.frame(Frame { address, ..frame });
        let leaf = in_file.map(FrameAddress::InstructionPointer);
        let after = |address: u64| FrameAddress::ReturnAddress(address.wrapping_add(1));
        self.leaf.push(at(leaf)?);
        self.caller.push(at(in_file.map(after))?);
        Ok(())
    }
}

pub(super) fn locations(
    parts: &Parts<'_>,
    out: &mut Collector<'_>,
) -> Result<FxHashMap<u64, Location>, String> {
    let mappings = mappings(parts, out)?;
    let functions = functions(parts, out)?;
    let unknown = out.object("[unknown]", None)?;
    let mut interned = Interned::default();
    let mut locations = FxHashMap::default();
    for message in &parts.locations {
        let stated = StatedLocation::of(message)?;
        let mapping = mappings.get(&stated.mapping);
        let object = mapping.map_or(unknown, |mapping| mapping.object);
        let in_file = stated.address_in(mapping);
        let mut location = Location::default();
        // The innermost call comes first.
        for (depth, line) in stated.lines.iter().rev().enumerate() {
            let [_, function, line, column] = numbers(line)?;
            let function = functions.get(&function).ok_or_else(|| {
                format!("a location refers to function {function}, which does not exist")
            })?;
            let id = interned.function(function.name, object, parts, out)?;
            let file = interned.file(function.file, parts, out)?;
            let frame = Frame {
                line: file.and_then(|file| line_of(file, line, column)),
                inline_depth: depth as u32,
                start_line: function.start_line,
                ..Frame::of(id)
            };
            let address = (stated.address != 0).then_some(in_file);
            location.push(frame, address, out)?;
        }
        out.hold(ENTRY_BYTES + 8 * stated.lines.len())?;
        if stated.lines.is_empty() {
            // An unsymbolized location has only an address.
            let function = out.function("", object)?;
            location.push(Frame::of(function), Some(in_file), out)?;
        }
        let id = stated.id;
        if id == 0 || locations.insert(id, location).is_some() {
            return Err(format!("location id {id} is zero or used twice"));
        }
    }
    Ok(locations)
}

fn mappings(parts: &Parts<'_>, out: &mut Collector<'_>) -> Result<FxHashMap<u64, Mapping>, String> {
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
    Ok(mappings)
}

fn functions(
    parts: &Parts<'_>,
    out: &mut Collector<'_>,
) -> Result<FxHashMap<u64, StatedFunction>, String> {
    let mut functions = FxHashMap::default();
    for message in &parts.functions {
        let [_, id, name, system_name, file, start_line] = numbers(message)?;
        let name = match name {
            0 => system_name,
            name => name,
        };
        let function = StatedFunction {
            name,
            file,
            start_line: small(start_line),
        };
        out.hold(ENTRY_BYTES)?;
        functions.insert(id, function);
    }
    Ok(functions)
}

/// A location as in the message.
#[derive(Default)]
struct StatedLocation<'a> {
    id: u64,
    mapping: u64,
    /// Address in the process, or 0 if unknown.
    address: u64,
    /// Messages of the inlined calls and the function. The innermost call comes first.
    lines: Vec<&'a [u8]>,
}

impl<'a> StatedLocation<'a> {
    fn of(message: &'a [u8]) -> Result<StatedLocation<'a>, String> {
        let mut location = StatedLocation::default();
        for field in Fields::new(message) {
            match field? {
                (1, value) => location.id = value.number(),
                (2, value) => location.mapping = value.number(),
                (3, value) => location.address = value.number(),
                // Callers beyond the limit are dropped anyway.
                (4, value) if location.lines.len() <= MAX_FRAMES => {
                    location.lines.push(value.bytes());
                }
                _ => {}
            }
        }
        Ok(location)
    }

    /// Returns the address as an offset in the mapped file.
    fn address_in(&self, mapping: Option<&Mapping>) -> u64 {
        mapping.map_or(self.address, |mapping| {
            self.address
                .wrapping_sub(mapping.start)
                .wrapping_add(mapping.offset)
        })
    }
}

/// Interned functions and files, by the string indices of their names.
#[derive(Default)]
struct Interned {
    functions: FxHashMap<(u64, ObjectId), FunctionId>,
    files: FxHashMap<u64, FileId>,
}

impl Interned {
    fn function(
        &mut self,
        name: u64,
        object: ObjectId,
        parts: &Parts<'_>,
        out: &mut Collector<'_>,
    ) -> Result<FunctionId, String> {
        if let Some(function) = self.functions.get(&(name, object)) {
            return Ok(*function);
        }
        let function = out.function(&parts.string(name)?, object)?;
        out.hold(ENTRY_BYTES)?;
        self.functions.insert((name, object), function);
        Ok(function)
    }

    /// Returns the file of a name. String 0 is empty and stands for no file.
    fn file(
        &mut self,
        name: u64,
        parts: &Parts<'_>,
        out: &mut Collector<'_>,
    ) -> Result<Option<FileId>, String> {
        if name == 0 {
            return Ok(None);
        }
        if let Some(file) = self.files.get(&name) {
            return Ok(Some(*file));
        }
        let file = out.file(&parts.string(name)?)?;
        out.hold(ENTRY_BYTES)?;
        self.files.insert(name, file);
        Ok(Some(file))
    }
}

fn line_of(file: FileId, line: u64, column: u64) -> Option<Line> {
    (line != 0).then(|| Line {
        file,
        line: small(line),
        column: small(column),
    })
}

/// Returns 0 for a number that does not fit.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
