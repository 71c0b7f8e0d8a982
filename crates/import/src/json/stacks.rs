//! [`Stacks`]: stacks of one thread, from its own tables or the shared ones.

use rprof_profile::{Frame, FrameAddress, FrameId, FunctionId, Line, ObjectId, StackId};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use super::document::{
    Document, FrameTable, FuncTable, Library, ResourceTable, SourceTable, StackTable, Thread, at,
    of,
};
use super::speedscope::FRAME_WORK;
use super::value::{List, Strings};
use crate::collector::Collector;

/// Stacks of one thread, from its own tables or the shared ones.
pub(super) struct Stacks<'d> {
    libraries: &'d List<Library>,
    strings: &'d Strings,
    stack_table: &'d StackTable,
    frame_table: &'d FrameTable,
    func_table: &'d FuncTable,
    resources: &'d ResourceTable,
    sources: &'d SourceTable,
    known: FxHashMap<i64, FrameId>,
    callers: FxHashMap<i64, FrameId>,
    functions: FxHashMap<i64, FunctionId>,
    /// Stacks looked up so far; `None` if the filter drops the stack or it has no frame.
    stacks: FxHashMap<i64, Option<StackId>>,
}

/// Maximum number of frames of a stack. It also ends cycles in the table.
const MAX_FRAMES: usize = 1 << 14;

const ENTRY_BYTES: usize = 64;

impl<'d> Stacks<'d> {
    pub(super) fn new(document: &'d Document, thread: &'d Thread) -> Stacks<'d> {
        static NONE: Strings = Strings::EMPTY;
        static STACKS: StackTable = StackTable {
            frame: List::EMPTY,
            prefix: List::EMPTY,
            prefix_offset: None,
        };
        static FRAMES: FrameTable = FrameTable {
            address: List::EMPTY,
            inline_depth: List::EMPTY,
            func: List::EMPTY,
            line: List::EMPTY,
            column: List::EMPTY,
        };
        static FUNCS: FuncTable = FuncTable {
            name: List::EMPTY,
            resource: List::EMPTY,
            source: List::EMPTY,
            file_name: List::EMPTY,
            line_number: List::EMPTY,
        };
        static RESOURCES: ResourceTable = ResourceTable {
            lib: List::EMPTY,
            name: List::EMPTY,
        };
        static SOURCES: SourceTable = SourceTable {
            filename: List::EMPTY,
        };
        let (own, shared) = (thread, &document.shared);
        let strings = [
            &own.string_array,
            &own.string_table,
            &shared.string_array,
            &shared.string_table,
        ];
        Stacks {
            libraries: &document.libs,
            strings: strings
                .iter()
                .find_map(|list| list.as_deref())
                .unwrap_or(&NONE),
            stack_table: own
                .stack_table
                .as_deref()
                .or(shared.stack_table.as_deref())
                .unwrap_or(&STACKS),
            frame_table: own
                .frame_table
                .as_deref()
                .or(shared.frame_table.as_deref())
                .unwrap_or(&FRAMES),
            func_table: own
                .func_table
                .as_deref()
                .or(shared.func_table.as_deref())
                .unwrap_or(&FUNCS),
            resources: own
                .resource_table
                .as_deref()
                .or(shared.resource_table.as_deref())
                .unwrap_or(&RESOURCES),
            sources: own
                .sources
                .as_deref()
                .or(shared.sources.as_deref())
                .unwrap_or(&SOURCES),
            known: FxHashMap::default(),
            callers: FxHashMap::default(),
            functions: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    /// Returns a stack by its index; `None` if the filter drops it, or if it has no frames (idle
    /// time).
    pub(super) fn stack(
        &mut self,
        stack: i64,
        out: &mut Collector<'_>,
    ) -> Result<Option<StackId>, String> {
        if let Some(known) = self.stacks.get(&stack) {
            return Ok(*known);
        }
        let frames = self.frames(stack, out)?;
        let id = match frames.is_empty() {
            true => None,
            false => out.stack(&frames)?,
        };
        out.hold(ENTRY_BYTES)?;
        self.stacks.insert(stack, id);
        Ok(id)
    }

    /// Returns the frames of a stack, root first.
    fn frames(&mut self, stack: i64, out: &mut Collector<'_>) -> Result<Vec<FrameId>, String> {
        let mut numbers = Vec::new();
        let mut next = (stack >= 0).then_some(stack);
        while let Some(stack) = next {
            let frame = of(&self.stack_table.frame, Some(stack));
            numbers.push(
                frame.ok_or_else(|| format!("there is no stack {stack}, or it has no frame"))?,
            );
            if numbers.len() > MAX_FRAMES {
                return Err(format!(
                    "a stack has more than {MAX_FRAMES} frames, or the stack table contains a \
                     cycle"
                ));
            }
            next = match &self.stack_table.prefix_offset {
                // 0 for a root.
                Some(offsets) => of(offsets, Some(stack))
                    .filter(|offset| *offset > 0)
                    .map(|offset| stack - offset),
                None => of(&self.stack_table.prefix, Some(stack)).filter(|stack| *stack >= 0),
            };
        }
        // Each stack may be one frame deeper than the previous one.
        out.work(FRAME_WORK * numbers.len())?;
        // Inlined frames have the leaf's address too.
        let mut is_leaf = true;
        let mut frames = Vec::with_capacity(numbers.len());
        for number in numbers {
            frames.push(self.frame(number, is_leaf, out)?);
            is_leaf &= of(&self.frame_table.inline_depth, Some(number)).unwrap_or(0) > 0;
        }
        frames.reverse();
        Ok(frames)
    }

    fn frame(
        &mut self,
        number: i64,
        is_leaf: bool,
        out: &mut Collector<'_>,
    ) -> Result<FrameId, String> {
        let known = if is_leaf { &self.known } else { &self.callers };
        if let Some(known) = known.get(&number) {
            return Ok(*known);
        }
        let index = Some(number);
        let table = self.frame_table;
        let function = of(&table.func, index)
            .ok_or_else(|| format!("there is no frame {number}, or it has no function"))?;
        let function_id = match self.functions.get(&function) {
            Some(known) => *known,
            None => {
                let (name, object) = self.function(function, out)?;
                let made = out.function(name, object)?;
                out.hold(ENTRY_BYTES)?;
                self.functions.insert(function, made);
                made
            }
        };
        let address = at(&table.address, index).and_then(|address| address.get());
        let address = address.map(|address| match is_leaf {
            true => FrameAddress::InstructionPointer(address),
            // The address is within the call instruction.
            false => FrameAddress::ReturnAddress(address.wrapping_add(1)),
        });
        let small = |number: Option<i64>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
        let file = match at(
            &self.sources.filename,
            of(&self.func_table.source, Some(function)),
        ) {
            Some(name) => self.strings.get(Some(name.get())),
            None => (self.strings).get(of(&self.func_table.file_name, Some(function))),
        };
        let line = small(of(&table.line, index));
        let line = match file.filter(|_| line > 0) {
            None => None,
            Some(file) => Some(Line {
                file: out.file(file)?,
                line,
                column: small(of(&table.column, index)),
            }),
        };
        let id = out.frame(Frame {
            address,
            line,
            inline_depth: small(of(&table.inline_depth, index)),
            start_line: small(of(&self.func_table.line_number, Some(function))),
            ..Frame::of(function_id)
        })?;
        let known = if is_leaf {
            &mut self.known
        } else {
            &mut self.callers
        };
        known.insert(number, id);
        out.hold(ENTRY_BYTES)?;
        Ok(id)
    }

    fn function(
        &self,
        number: i64,
        out: &mut Collector<'_>,
    ) -> Result<(&'d str, ObjectId), String> {
        let name = of(&self.func_table.name, Some(number));
        let strings = self.strings;
        let name = strings
            .get(name)
            .ok_or_else(|| format!("there is no function {number}, or it has no name"))?;
        let resource =
            of(&self.func_table.resource, Some(number)).filter(|resource| *resource >= 0);
        let library = of(&self.resources.lib, resource);
        let object = match at(self.libraries, library) {
            Some(library) => {
                let path = match library.path.is_empty() {
                    true => &library.name,
                    false => &library.path,
                };
                let build_id = BuildId::from_hex(&library.code_id);
                out.object(path, build_id)?
            }
            None => match strings.get(of(&self.resources.name, resource)) {
                Some(name) => out.object(name, None)?,
                None => out.object("[unknown]", None)?,
            },
        };
        Ok((name, object))
    }
}
