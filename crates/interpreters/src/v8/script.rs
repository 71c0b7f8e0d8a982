//! [`Scripts`]: names and lines of scripts.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::function::NamedFunction;
use super::heap::{FlatString, Heap, smi};
use super::source_map::{self, SourceMap};
use crate::snapshot::{Fault, Result};

/// Maximum length of a script's name, in UTF-16 units. Longer names keep their end.
const MAX_NAME: usize = 4096;
const MAX_SHOWN: usize = 240;

/// Name of scripts without one, such as the texts of `eval`. V8 prints it in stack traces.
const UNNAMED: &str = "<anonymous>";

/// Maximum number of lines of a script, and of all cached scripts.
const MAX_LINES: usize = 1 << 20;
const MAX_CACHED_LINES: usize = 4 << 20;

const MAX_SCRIPTS: usize = 1 << 14;

/// Script of one process.
#[derive(Debug)]
struct Script {
    name: Arc<str>,
    /// Line and column of the first character, from 0, as given to the compiler.
    first: (i32, i32),
    /// Offset of the end of each line.
    line_ends: Arc<[u32]>,
    /// Places in the files that the script was compiled from.
    map: Option<SourceMap>,
}

/// Scripts of one process, by their Script object, source and name.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    scripts: FxHashMap<[u64; 3], Script>,
    lines: usize,
}

impl Scripts {
    /// Returns the name of a function with its place, as V8 writes it into perf maps:
    /// `JS:NAME FILE:LINE:COLUMN`, with lines and columns from 1. If the script has a source map, the
    /// place is the user's; line and column are 0 for functions that the compiler has added.
    pub(super) fn describe(
        &mut self,
        heap: &mut Heap<'_>,
        function: &NamedFunction,
    ) -> Result<String> {
        let key = [
            function.script,
            heap.field(function.script, heap.layout.script_source)?,
            heap.field(function.script, heap.layout.script_name)?,
        ];
        if !self.scripts.contains_key(&key) {
            let script = Script::read(heap, key)?;
            let lines = script.line_ends.len() + script.map.as_ref().map_or(0, SourceMap::len) / 4;
            if self.scripts.len() == MAX_SCRIPTS || self.lines + lines > MAX_CACHED_LINES {
                self.scripts.clear();
                self.lines = 0;
            }
            self.lines += lines;
            self.scripts.insert(key, script);
        }
        let script = self.scripts.get(&key).ok_or(Fault::Invalid)?;
        let name = joined(&function.name);
        let Some(map) = &script.map else {
            let (line, column) = script.position(function.start);
            return Ok(format!("JS:{name} {}:{line}:{column}", script.name));
        };
        let (line, column) = script.place(function.start);
        let place = map.original(line, column);
        Ok(match place.map(|place| (shown_file(place.file), place)) {
            Some((file, place)) => {
                let (line, column) = (u64::from(place.line) + 1, u64::from(place.column) + 1);
                format!("JS:{name} {file}:{line}:{column}")
            }
            None => format!("JS:{name} {}:0:0", script.name),
        })
    }
}

impl Script {
    fn read(heap: &mut Heap<'_>, [script, source, name]: [u64; 3]) -> Result<Self> {
        let layout = *heap.layout;
        let name = match heap.type_of(name)? < layout.first_nonstring {
            true => heap.string(name, MAX_NAME)?,
            false => UNNAMED.to_owned(),
        };
        let first = (
            smi(heap.field(script, layout.script_line_offset)?).ok_or(Fault::Invalid)?,
            smi(heap.field(script, layout.script_column_offset)?).ok_or(Fault::Invalid)?,
        );
        let text = whole_text(heap, source)?;
        let map = text.and_then(|text| SourceMap::at_end_of(&text, &name));
        let ends = heap.field(script, layout.script_line_ends)?;
        // V8 computes them at the first need.
        let has_ends = smi(ends).is_none() && heap.type_of(ends)? == layout.type_fixed_array;
        let line_ends = match has_ends {
            true => known_ends(heap, ends)?,
            false => {
                let source = heap.flat(source)?;
                ends_in(heap, source)?
            }
        };
        Ok(Self {
            name: shown_file(&name).into(),
            first,
            line_ends: line_ends.into(),
            map,
        })
    }

    /// Returns the line and column, from 0, of an offset in the text.
    fn place(&self, offset: u32) -> (u32, u32) {
        let line = self.line_ends.partition_point(|end| *end < offset);
        let begin = match line
            .checked_sub(1)
            .and_then(|above| self.line_ends.get(above))
        {
            Some(end) => end.saturating_add(1),
            None => 0,
        };
        (line as u32, offset.saturating_sub(begin))
    }

    /// Returns the line and column, from 1, of an offset.
    fn position(&self, offset: u32) -> (i64, i64) {
        let (line, column) = self.place(offset);
        let (first_line, first_column) = self.first;
        let moved = match line {
            0 => i64::from(first_column),
            _ => 0,
        };
        let line = i64::from(line) + i64::from(first_line) + 1;
        (line, i64::from(column) + moved + 1)
    }
}

/// Space that does not separate a function from its file.
const JOINT: &str = "\u{a0}";

/// Joins the words of a function's name if one of them looks like a file: `GET /users`.
fn joined(name: &str) -> Cow<'_, str> {
    let is_file = |word: &str| word.starts_with('/') || word.contains(':');
    match name.split(' ').skip(1).any(is_file) {
        true => name.replace(' ', JOINT).into(),
        false => name.into(),
    }
}

/// Returns the name of a file for display. A path may contain spaces, another name does not:
/// `[worker eval]`.
fn shown_file(name: &str) -> String {
    let name = shown(name);
    match name.starts_with('/') {
        true => name,
        false => name.replace(' ', JOINT),
    }
}

/// Returns the last characters of a long name.
fn shown(name: &str) -> String {
    let surplus = name.chars().count().saturating_sub(MAX_SHOWN);
    match surplus {
        0 => name.to_owned(),
        _ => format!("…{}", name.chars().skip(surplus).collect::<String>()),
    }
}

/// Returns the line ends that V8 has computed.
fn known_ends(heap: &mut Heap<'_>, array: u64) -> Result<Vec<u32>> {
    let len = smi(heap.field(array, heap.layout.array_length)?);
    let len = len
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(Fault::Invalid)?;
    if len > MAX_LINES {
        return Err(Fault::Invalid);
    }
    let start = array.wrapping_sub(1).wrapping_add(heap.layout.array_data);
    let bytes = heap.memory.wide(start, len * 8)?;
    let (words, _) = bytes.as_chunks();
    let end = |word: &[u8; 8]| u32::try_from(smi(u64::from_le_bytes(*word))?).ok();
    let ends: Option<Vec<u32>> = words.iter().map(end).collect();
    match ends.filter(|ends| ends.is_sorted()) {
        Some(ends) => Ok(ends),
        None => Err(Fault::Invalid),
    }
}

/// Returns the text of a script that ends with a source map. `None` for others.
fn whole_text(heap: &mut Heap<'_>, source: u64) -> Result<Option<Vec<u8>>> {
    // Texts in several pieces are of other programs than compilers.
    let source = match heap.flat(source) {
        Err(Fault::Invalid) => return Ok(None),
        source => source?,
    };
    let unit = if source.is_one_byte { 1 } else { 2 };
    let len = source.len.checked_mul(unit).ok_or(Fault::Invalid)?;
    let end = len.min(source_map::END * unit);
    let mut last = vec![0; end];
    let start = source.avma.wrapping_add((len - end) as u64);
    match heap.memory.copy(start, &mut last) {
        Err(Fault::Invalid) => return Ok(None),
        read => read?,
    }
    // The map itself is ASCII. Other characters of the text do not matter.
    let narrow = |bytes: &[u8]| match source.is_one_byte {
        true => bytes.to_vec(),
        false => bytes.iter().step_by(2).copied().collect(),
    };
    if !source_map::may_end_with_map(&narrow(&last)) {
        return Ok(None);
    }
    match heap.memory.wide(source.avma, len) {
        Err(Fault::Invalid) => Ok(None),
        text => Ok(Some(narrow(text?))),
    }
}

/// Returns the line ends in a source text, as V8 computes them (`String::CalculateLineEnds`).
fn ends_in(heap: &mut Heap<'_>, source: FlatString) -> Result<Vec<u32>> {
    let unit = if source.is_one_byte { 1 } else { 2 };
    let len = source.len.checked_mul(unit).ok_or(Fault::Invalid)?;
    let bytes = heap.memory.wide(source.avma, len)?;
    let mut ends = Vec::new();
    let mut add = |at: usize, unit: u16, next: Option<u16>| {
        let is_end = match unit {
            0x0a | 0x2028 | 0x2029 => true,
            // The end of "\r\n" is its "\n".
            0x0d => next != Some(0x0a),
            _ => false,
        };
        if is_end && ends.len() < MAX_LINES {
            ends.push(at as u32);
        }
    };
    match source.is_one_byte {
        true => {
            for (at, byte) in bytes.iter().enumerate() {
                add(
                    at,
                    u16::from(*byte),
                    bytes.get(at + 1).map(|byte| u16::from(*byte)),
                );
            }
        }
        false => {
            let (pairs, _) = bytes.as_chunks();
            let unit_at = |at: usize| pairs.get(at).map(|pair| u16::from_le_bytes(*pair));
            for at in 0..pairs.len() {
                add(at, unit_at(at).unwrap_or(0), unit_at(at + 1));
            }
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(first: (i32, i32), line_ends: &[u32]) -> Script {
        Script {
            name: "a.js".into(),
            first,
            line_ends: line_ends.into(),
            map: None,
        }
    }

    #[test]
    fn offset_becomes_line_and_column_from_one() {
        // "ab\ncd\n": the line ends are at 2 and 5.
        let plain = script((0, 0), &[2, 5]);
        let positions = [0, 2, 3, 5, 6].map(|offset| plain.position(offset));
        assert_eq!(positions, [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1)]);
        let moved = script((10, 7), &[2, 5]);
        assert_eq!(
            moved.position(1),
            (11, 9),
            "the column moves in the first line only"
        );
        assert_eq!(moved.position(4), (12, 2));
    }

    #[test]
    fn spaces_of_names_do_not_look_like_the_one_before_the_file() {
        assert_eq!(joined("get side"), "get side");
        assert_eq!(joined("GET /users/:id"), "GET\u{a0}/users/:id");
        assert_eq!(joined("a node:fs b"), "a\u{a0}node:fs\u{a0}b");
        assert_eq!(shown_file("/my app/x.js"), "/my app/x.js");
        assert_eq!(shown_file("[worker eval]"), "[worker\u{a0}eval]");
    }

    #[test]
    fn long_script_name_keeps_its_end() {
        let long = format!("/{}/app.js", "d".repeat(500));
        let short = shown(&long);
        assert_eq!(short.chars().count(), MAX_SHOWN + 1);
        assert!(short.starts_with('…') && short.ends_with("/app.js"));
        assert_eq!(shown("app.js"), "app.js");
    }
}
