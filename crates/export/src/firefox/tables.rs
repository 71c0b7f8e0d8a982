//! [`Tables`]: strings, functions, frames and stacks, numbered in order of first use.

use std::io;

use rprof_profile::intern::Values;
use rprof_profile::waits::reasons::WAITING_FOR_CPU;
use rprof_profile::{
    Frame, FrameAddress, FrameId, FrameListId, FunctionId, Language, ObjectId, ObjectKind, Profile,
};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::Json;
use crate::frame_text::unnamed;
use crate::names::{CleanName, CleanNames};

/// Resource type of libraries (`resourceTypes` of the profiler).
const LIBRARY: u32 = 1;

pub(super) struct Tables<'p> {
    profile: &'p Profile,
    strings: Values<String>,
    sources: Values<u32>,
    libraries: Values<ObjectId>,
    functions: Values<FunctionId>,
    /// Source file and first line of each function, if a frame has them.
    places: Vec<(Option<u32>, Option<u32>)>,
    frames: Values<FrameId>,
    /// Library and function of each symbol.
    symbols: Values<(u32, FunctionId)>,
    /// Lowest frame address of each symbol.
    starts: Vec<u64>,
    /// Symbol by library and address.
    symbol_at: FxHashMap<(u32, u64), u32>,
    /// Caller stack and frame of each stack.
    stacks: Values<(Option<u32>, u32)>,
    /// Stack index of each known list of callers; `None` for the empty list.
    callers: FxHashMap<FrameListId, Option<u32>>,
    /// Stack index by profile entry; the inner `None` is a stack without frames.
    known: Vec<Option<Option<u32>>>,
}

impl<'p> Tables<'p> {
    pub(super) fn new(profile: &'p Profile) -> Tables<'p> {
        Tables {
            profile,
            strings: Values::default(),
            sources: Values::default(),
            libraries: Values::default(),
            functions: Values::default(),
            places: Vec::new(),
            frames: Values::default(),
            symbols: Values::default(),
            starts: Vec::new(),
            symbol_at: FxHashMap::default(),
            stacks: Values::default(),
            callers: FxHashMap::default(),
            known: vec![None; profile.aggregated.len()],
        }
    }

    /// Returns the stack index of a profile entry; `None` without frames. Adds the stack if it is
    /// new.
    pub(super) fn number(&mut self, entry: usize) -> Option<u32> {
        if let Some(known) = self.known.get(entry).copied().flatten() {
            return known;
        }
        let (outer, inner) = self
            .profile
            .lists(self.profile.aggregated.get(entry)?.stack);
        let callers = match self.callers.get(&outer) {
            Some(known) => *known,
            None => {
                let callers = self.chain(None, outer);
                self.callers.insert(outer, callers);
                callers
            }
        };
        let number = self.chain(callers, inner);
        if let Some(known) = self.known.get_mut(entry) {
            *known = Some(number);
        }
        number
    }

    fn chain(&mut self, mut stack: Option<u32>, list: FrameListId) -> Option<u32> {
        let profile = self.profile;
        for frame in profile.list(list) {
            let frame = self.frame(frame);
            stack = Some(self.stacks.intern((stack, frame)));
        }
        stack
    }

    fn frame(&mut self, id: FrameId) -> u32 {
        let next = self.frames.as_slice().len();
        let number = self.frames.intern(id);
        if number as usize == next {
            let frame = self.profile.frame(id);
            let function = self.functions.intern(frame.function);
            if function as usize == self.places.len() {
                let place = self.place_of_source(frame.function);
                self.places.push(place);
                self.library(self.profile.function(frame.function).object);
            }
            let source = frame.line.map(|line| self.sources.intern(line.file.0));
            if let Some((known, line)) = self.places.get_mut(function as usize) {
                *known = known.or(source);
                *line = line.or((frame.start_line > 0).then_some(frame.start_line));
            }
            self.symbol(&frame);
        }
        number
    }

    /// Returns source file and first line of a function of an interpreted language.
    fn place_of_source(&mut self, function: FunctionId) -> (Option<u32>, Option<u32>) {
        let source = self.profile.function(function).source.as_deref();
        let file = source.and_then(|source| source.file);
        (
            file.map(|file| self.sources.intern(file.0)),
            source.map(|source| source.line).filter(|line| *line > 0),
        )
    }

    fn library(&mut self, object: ObjectId) -> Option<u32> {
        let is_file = self.profile.object(object).kind == ObjectKind::File;
        is_file.then(|| self.libraries.intern(object))
    }

    fn symbol(&mut self, frame: &Frame) {
        let object = self.profile.function(frame.function).object;
        let (Some(library), Some(address)) = (self.library(object), address_of(frame)) else {
            return;
        };
        if frame.inline_depth > 0 {
            return;
        }
        let symbol = self.symbols.intern((library, frame.function));
        if symbol as usize == self.starts.len() {
            self.starts.push(address);
        }
        if let Some(start) = self.starts.get_mut(symbol as usize) {
            *start = (*start).min(address);
        }
        self.symbol_at.insert((library, address), symbol);
    }

    pub(super) fn libraries(&self) -> Vec<Value> {
        let names = CleanNames::new(self.profile);
        (self.libraries.as_slice().iter())
            .map(|id| {
                let (path, name) = (names.object(*id), names.object_base(*id));
                let build_id = self.profile.object(*id).build_id.as_ref();
                let build_id = build_id.map(ToString::to_string);
                json!({
                    "name": name, "path": path, "debugName": name, "debugPath": path,
                    "breakpadId": build_id.as_deref().map_or_else(String::new, breakpad_id),
                    "codeId": build_id,
                    "arch": "",
                })
            })
            .collect()
    }

    pub(super) fn string(&mut self, text: &str) -> u32 {
        self.strings.intern(text.to_owned())
    }

    /// Writes all tables. Callers must not add stacks afterwards.
    pub(super) fn write(&mut self, json: &mut Json<'_>) -> io::Result<()> {
        json.begin()?;
        let profile = self.profile;
        let names = CleanNames::new(profile);
        let strings = &mut self.strings;
        let functions = self.functions.as_slice();
        let function_names: Vec<u32> = (functions.iter())
            .map(|id| {
                strings.intern(match names.own_function(*id) {
                    Some(name) => name.into_owned(),
                    None => unnamed(profile, profile.function(*id).object),
                })
            })
            .collect();
        let libraries = self.libraries.as_slice();
        let library_names: Vec<u32> = (libraries.iter())
            .map(|id| strings.intern(names.object_base(*id).into_owned()))
            .collect();
        let sources = self.sources.as_slice();
        let source_names: Vec<u32> = (sources.iter())
            .map(|file| strings.intern(CleanName::new(&profile.files[*file as usize]).into_owned()))
            .collect();
        let symbols = self.symbols.as_slice();
        let symbol_names: Vec<u32> = (symbols.iter())
            .map(|(_, function)| self.functions.find(function))
            .map(|number| number.map_or(0, |number| function_names[number as usize]))
            .collect();

        json.key("stackTable")?;
        json.begin()?;
        let stacks = self.stacks.as_slice();
        json.column("frame", stacks.iter().map(|(_, frame)| frame))?;
        json.column("prefix", stacks.iter().map(|(prefix, _)| prefix))?;
        json.value("length", &stacks.len())?;
        json.end()?;

        self.write_frames(json)?;

        json.key("funcTable")?;
        json.begin()?;
        let count = functions.len();
        json.column("name", &function_names)?;
        let is_js = functions.iter().map(|id| {
            let source = profile.function(*id).source.as_deref();
            source.is_some_and(|source| source.language == Language::JavaScript)
        });
        json.column("isJS", is_js)?;
        json.column("relevantForJS", std::iter::repeat_n(false, count))?;
        let resources = functions.iter().map(|id| {
            let object = profile.function(*id).object;
            let library = self.libraries.find(&object);
            library.map_or(-1, i64::from)
        });
        json.column("resource", resources)?;
        json.column("source", self.places.iter().map(|(source, _)| source))?;
        json.column("lineNumber", self.places.iter().map(|(_, line)| line))?;
        let columns = functions.iter().map(|id| {
            let source = profile.function(*id).source.as_deref()?;
            Some(source.column).filter(|column| *column > 0)
        });
        json.column("columnNumber", columns)?;
        json.value("length", &count)?;
        json.end()?;

        json.key("resourceTable")?;
        json.begin()?;
        let count = libraries.len();
        json.column("lib", 0..count)?;
        json.column("name", &library_names)?;
        json.column("host", std::iter::repeat_n((), count))?;
        json.column("type", std::iter::repeat_n(LIBRARY, count))?;
        json.value("length", &count)?;
        json.end()?;

        json.key("nativeSymbols")?;
        json.begin()?;
        json.column("libIndex", symbols.iter().map(|(library, _)| library))?;
        json.column("address", &self.starts)?;
        json.column("name", &symbol_names)?;
        json.column("functionSize", std::iter::repeat_n((), symbols.len()))?;
        json.value("length", &symbols.len())?;
        json.end()?;

        json.key("sources")?;
        json.begin()?;
        json.column("uuid", std::iter::repeat_n((), sources.len()))?;
        json.column("filename", &source_names)?;
        json.value("length", &sources.len())?;
        json.end()?;

        json.column("stringArray", self.strings.as_slice())?;
        json.end()
    }

    fn write_frames(&self, json: &mut Json<'_>) -> io::Result<()> {
        let ids = self.frames.as_slice();
        let frames = || ids.iter().map(|id| self.profile.frame(*id));
        let count = ids.len();
        let object = |frame: &Frame| self.profile.function(frame.function).object;
        let library = |frame: &Frame| self.libraries.find(&object(frame));
        json.key("frameTable")?;
        json.begin()?;
        let addresses = frames().map(|frame| match (library(&frame), address_of(&frame)) {
            (Some(_), Some(address)) => i64::try_from(address).unwrap_or(-1),
            _ => -1,
        });
        json.column("address", addresses)?;
        json.column("inlineDepth", frames().map(|frame| frame.inline_depth))?;
        let reason = |frame: &Frame| self.profile.function(frame.function).name.as_deref();
        let categories = frames().map(|frame| match self.profile.object(object(&frame)).kind {
            ObjectKind::File => Category::User as u32,
            ObjectKind::Waiting if reason(&frame) == Ok(WAITING_FOR_CPU) => {
                Category::WaitingForCpu as u32
            }
            ObjectKind::Waiting => Category::Waiting as u32,
            ObjectKind::Kernel => Category::Kernel as u32,
            ObjectKind::Jit => Category::Generated as u32,
        });
        json.column("category", categories)?;
        json.column("subcategory", std::iter::repeat_n(0, count))?;
        let functions = frames().map(|frame| self.functions.find(&frame.function));
        json.column("func", functions)?;
        let symbols = frames().map(|frame| {
            let place = (library(&frame)?, address_of(&frame)?);
            self.symbol_at.get(&place).copied()
        });
        json.column("nativeSymbol", symbols)?;
        json.column("innerWindowID", std::iter::repeat_n(0, count))?;
        // Code without a line.
        let known = |number: u32| (number > 0).then_some(number);
        json.column("line", frames().map(|frame| known(frame.line?.line)))?;
        json.column("column", frames().map(|frame| known(frame.line?.column)))?;
        json.value("length", &count)?;
        json.end()
    }
}

/// Frame categories. The values are indexes in the profile's category list.
#[derive(Clone, Copy)]
enum Category {
    User = 1,
    Kernel = 2,
    Generated = 3,
    Waiting = 4,
    WaitingForCpu = 5,
}

fn address_of(frame: &Frame) -> Option<u64> {
    frame.address.map(FrameAddress::lookup_address)
}

/// Returns the Breakpad id of a file, for symbol servers: the first half of the build ID as a GUID,
/// and age 0. The first three fields of the GUID are little-endian numbers.
fn breakpad_id(build_id: &str) -> String {
    let digits: Vec<char> = build_id
        .chars()
        .chain(std::iter::repeat('0'))
        .take(32)
        .collect();
    let fields = [0..8, 8..12, 12..16];
    let swapped = fields
        .iter()
        .flat_map(|field| digits[field.clone()].chunks(2).rev());
    let rest = digits[16..].chunks(2);
    let id: String = swapped.chain(rest).flatten().collect();
    id.to_uppercase() + "0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpad_id_is_half_a_build_id() {
        let id = breakpad_id("0102030405060708090a0b0c0d0e0f1011121314");
        assert_eq!(id, "0403020106050807090A0B0C0D0E0F100");
        assert_eq!(breakpad_id("01"), "000000010000000000000000000000000");
    }
}
