//! [`JitDump`]: the binary file in which a runtime writes what code it makes, when.
//!
//! The format is that of `tools/perf/Documentation/jitdump-specification.txt` in the kernel's
//! source, revision 2: a header, then records that say their length, in either byte order. The
//! runtime maps a page of the file executably, by which recorders find it.
//!
//! Code is there from the time of its record on. Times are of `CLOCK_MONOTONIC`, unless the
//! header says that they are of the processor's own counter.

use crate::history::History;
use crate::{JitFunction, JitLine, text};
use rustc_hash::FxHashMap;
use std::sync::Arc;

mod live;
mod reader;
mod strip;
mod unwinding;

pub use live::{LiveCode, LiveDump};
use reader::{Header, Reader};
pub use strip::without_code;
pub use unwinding::JitUnwinding;
use unwinding::Unwinding;

/// Most pieces of code of a file that are taken in.
const MOST_CODES: usize = 1 << 20;

/// The file is none that can be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// It does not begin as a jitdump.
    #[error("it is no jitdump: its first 4 bytes are not `JiTD`")]
    NotAJitDump,
    /// It begins as one, and ends before its header does.
    #[error("its header is cut off or damaged")]
    DamagedHeader,
}

/// Types of records (`enum jit_record_type`).
mod kind {
    pub(super) const LOAD: u32 = 0;
    pub(super) const MOVE: u32 = 1;
    pub(super) const DEBUG_INFO: u32 = 2;
    pub(super) const CLOSE: u32 = 3;
    pub(super) const UNWINDING: u32 = 4;
}

/// The code of one process, by address and time.
#[derive(Debug, Default)]
pub struct JitDump {
    /// In order of time.
    codes: Vec<Code>,
    history: History,
    files: Vec<Box<str>>,
    has_other_clock: bool,
    has_unwinding: bool,
    cut_at: Option<u64>,
    bad_records: u64,
    left_out: u64,
}

/// Code at a place from a time on, or nothing any more.
#[derive(Clone, Debug)]
struct Code {
    time: u64,
    start: u64,
    size: u64,
    /// `None` where code moved away.
    function: Option<Arc<Function>>,
}

/// What does not change when code moves.
#[derive(Debug)]
struct Function {
    name: Box<[u8]>,
    /// (offset from its start, file, line), ascending.
    lines: Vec<(u64, u32, u32)>,
    unwinding: Option<Unwinding>,
}

impl JitDump {
    /// Reads a file. Of one that is cut off or damaged, what stands before is taken.
    ///
    /// # Errors
    /// [`DumpError`], where it is no such file at all.
    pub fn parse(bytes: &[u8]) -> Result<Self, DumpError> {
        let header = Header::parse(bytes)?;
        let mut making = Making {
            dump: Self {
                has_other_clock: header.has_other_clock,
                ..Self::default()
            },
            ..Making::default()
        };
        let mut records = header.records(bytes);
        for record in records.by_ref() {
            let taken = match record.kind {
                kind::LOAD => making.load(record.time, record.body),
                kind::MOVE => making.moved(record.time, record.body),
                kind::DEBUG_INFO => making.lines(record.body),
                kind::UNWINDING => making.unwinding(record.body),
                kind::CLOSE => break,
                // What is not known yet.
                _ => Some(()),
            };
            making.dump.bad_records += u64::from(taken.is_none());
        }
        making.dump.cut_at = records.cut_at();
        Ok(making.finish())
    }

    /// The number of the code at an address at a time, in nanoseconds; at the end for
    /// `u64::MAX`.
    #[must_use]
    pub fn find(&self, avma: u64, time: u64) -> Option<u32> {
        let number = self.history.latest(avma, self.epoch(time))?;
        let code = self.codes.get(number as usize)?;
        code.function.as_ref().map(|_| number)
    }

    /// Code by its number.
    #[must_use]
    pub fn function(&self, number: u32) -> Option<JitFunction<'_>> {
        let code = self.codes.get(number as usize)?;
        Some(JitFunction {
            name: text(&code.function.as_ref()?.name),
            start: code.start,
            size: code.size,
        })
    }

    /// The line of source at an address in code of this number.
    #[must_use]
    pub fn line(&self, number: u32, avma: u64) -> Option<JitLine<'_>> {
        let code = self.codes.get(number as usize)?;
        let lines = &code.function.as_ref()?.lines;
        let offset = avma.checked_sub(code.start)?;
        let after = lines.partition_point(|(at, ..)| *at <= offset);
        let (_, file, line) = *lines.get(after.checked_sub(1)?)?;
        Some(JitLine {
            file: self.files.get(file as usize)?,
            line,
        })
    }

    /// Where code of this number starts, how long it is, and its unwinding information, if it has
    /// any.
    #[must_use]
    pub fn unwinding(&self, number: u32) -> Option<JitUnwinding<'_>> {
        let code = self.codes.get(number as usize)?;
        let unwinding = code.function.as_ref()?.unwinding.as_ref()?;
        Some(unwinding.of(code.start, code.size))
    }

    /// Whether there is unwinding information of any code.
    #[must_use]
    pub fn has_unwinding(&self) -> bool {
        self.has_unwinding
    }

    /// The function at an address at a time.
    #[must_use]
    pub fn lookup(&self, avma: u64, time: u64) -> Option<JitFunction<'_>> {
        self.function(self.find(avma, time)?)
    }

    /// How much had happened by a time: all of it, where times are of
    /// [another clock](Self::has_other_clock). While it is the same, so is every answer.
    #[must_use]
    pub fn epoch(&self, time: u64) -> u32 {
        let is_over = |code: &Code| self.has_other_clock || code.time <= time;
        self.codes.partition_point(is_over) as u32
    }

    /// How many pieces of code there are, each at each place it was at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there is no code.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Whether times are of a clock that nothing here can be compared with: the processor's.
    /// Lookups then answer what holds at the end.
    #[must_use]
    pub fn has_other_clock(&self) -> bool {
        self.has_other_clock
    }

    /// At which byte the file stops making sense, if it does.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// Records that are too short for what they have to hold.
    #[must_use]
    pub fn bad_records(&self) -> u64 {
        self.bad_records
    }

    /// Code that was left out, there being too much.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Lines of code at an address, waiting for the code.
type Lines = Vec<(u64, u32, u32)>;

/// A [`JitDump`] in the making.
#[derive(Default)]
struct Making {
    dump: JitDump,
    /// Lines come before the code that they are of: by its address.
    lines: FxHashMap<u64, Lines>,
    /// So does unwinding information, which does not say of which: of the next.
    unwinding: Option<Unwinding>,
    /// By the number that the runtime gave it: where it is now.
    by_index: FxHashMap<u64, (u64, u64, Arc<Function>)>,
    files: FxHashMap<Box<str>, u32>,
}

impl Making {
    /// `pid, tid: u32; vma, code_addr, code_size, code_index: u64; name: [u8; ..], 0;` the code.
    fn load(&mut self, time: u64, body: Reader<'_>) -> Option<()> {
        let mut body = body;
        let unwinding = self.unwinding.take();
        body.skip(4 + 4 + 8)?;
        let (start, size, index) = (body.u64()?, body.u64()?, body.u64()?);
        let name = body.c_string()?.into();
        let lines = self.lines.remove(&start).unwrap_or_default();
        let function = Arc::new(Function {
            name,
            lines,
            unwinding,
        });
        if self.has_room() {
            self.dump.has_unwinding |= function.unwinding.is_some();
            self.by_index
                .insert(index, (start, size, Arc::clone(&function)));
            self.put(time, start, size, Some(function));
        }
        Some(())
    }

    /// `pid, tid: u32; vma, old_code_addr, new_code_addr, code_size, code_index: u64`.
    fn moved(&mut self, time: u64, body: Reader<'_>) -> Option<()> {
        let mut body = body;
        body.skip(4 + 4 + 8)?;
        let (from, to) = (body.u64()?, body.u64()?);
        let (size, index) = (body.u64()?, body.u64()?);
        // Of code that nobody told of, only its leaving is news.
        let known = self.by_index.get(&index);
        let known = known.map(|(_, size, function)| (*size, Arc::clone(function)));
        if self.has_room() {
            self.put(time, from, known.as_ref().map_or(size, |k| k.0), None);
            if let Some((size, function)) = known {
                self.by_index
                    .insert(index, (to, size, Arc::clone(&function)));
                self.put(time, to, size, Some(function));
            }
        }
        Some(())
    }

    fn unwinding(&mut self, body: Reader<'_>) -> Option<()> {
        self.unwinding = Unwinding::parse(body)?;
        Some(())
    }

    /// `code_addr, nr_entry: u64`, then of each `code_addr: u64; line, discriminator: u32;
    /// name: [u8; ..], 0`, where the name `\xff` means that of the one before.
    fn lines(&mut self, body: Reader<'_>) -> Option<()> {
        let mut body = body;
        let (start, count) = (body.u64()?, body.u64()?);
        let mut lines: Lines = Vec::new();
        let mut file = None;
        for _ in 0..count {
            // As many as there are, whatever the count says.
            let Some((address, line, name)) = entry(&mut body) else {
                break;
            };
            if name != b"\xff" {
                file = Some(self.file(name));
            }
            if let (Some(offset), Some(file)) = (address.checked_sub(start), file) {
                lines.push((offset, file, line));
            }
        }
        lines.sort_by_key(|(offset, ..)| *offset);
        self.lines.insert(start, lines);
        Some(())
    }

    fn file(&mut self, name: &[u8]) -> u32 {
        let name = text(name);
        if let Some(number) = self.files.get(&*name) {
            return *number;
        }
        let number = self.dump.files.len() as u32;
        self.dump.files.push(name.clone().into());
        self.files.insert(name.into(), number);
        number
    }

    fn has_room(&mut self) -> bool {
        // A move takes two.
        let has_room = self.dump.codes.len() + 2 <= MOST_CODES;
        self.dump.left_out += u64::from(!has_room);
        has_room
    }

    fn put(&mut self, time: u64, start: u64, size: u64, function: Option<Arc<Function>>) {
        // What reaches beyond the end of memory ends there.
        let size = size.min(u64::MAX - start);
        if size > 0 {
            self.dump.codes.push(Code {
                time,
                start,
                size,
                function,
            });
        }
    }

    fn finish(mut self) -> JitDump {
        // Threads write when they get to it, not in order. Records of one time stay in the
        // order of the file.
        self.dump.codes.sort_by_key(|code| code.time);
        let ranges: Vec<(u64, u64)> = (self.dump.codes.iter())
            .map(|code| (code.start, code.start + code.size))
            .collect();
        self.dump.history = History::new(&ranges);
        self.dump
    }
}

fn entry<'a>(body: &mut Reader<'a>) -> Option<(u64, u32, &'a [u8])> {
    let (address, line) = (body.u64()?, body.u32()?);
    body.skip(4)?;
    Some((address, line, body.c_string()?))
}

#[cfg(test)]
mod tests;
