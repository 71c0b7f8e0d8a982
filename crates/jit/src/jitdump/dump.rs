//! [`JitDump`]: the code of a complete file, by address and time.

use super::format::{DumpError, Header, MAX_CODES, Reader, kind};
use super::unwinding::{JitUnwinding, Unwinding};
use crate::function::{JitFunction, JitLine, text};
use crate::history::History;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The code of one process, by address and time.
#[derive(Debug, Default)]
pub struct JitDump {
    /// Ascending by time.
    codes: Vec<Code>,
    history: History,
    files: Vec<Box<str>>,
    has_other_clock: bool,
    has_unwinding: bool,
    cut_at: Option<u64>,
    bad_records: u64,
    left_out: u64,
}

/// Code, or its absence, from a time on.
#[derive(Clone, Debug)]
struct Code {
    time: u64,
    start: u64,
    size: u64,
    /// `None` if code moved away from here.
    function: Option<Arc<Function>>,
}

#[derive(Debug)]
struct Function {
    name: Box<[u8]>,
    /// (offset in the function, file, line), ascending.
    lines: Vec<(u64, u32, u32)>,
    unwinding: Option<Unwinding>,
}

impl JitDump {
    /// Parses a file, up to the first damage: see [`cut_at`](Self::cut_at).
    ///
    /// # Errors
    /// [`DumpError`], if the file is no jitdump.
    pub fn parse(bytes: &[u8]) -> Result<Self, DumpError> {
        let header = Header::parse(bytes)?;
        let mut builder = DumpBuilder {
            dump: Self {
                has_other_clock: header.has_other_clock,
                ..Self::default()
            },
            ..DumpBuilder::default()
        };
        let mut records = header.records(bytes);
        for record in records.by_ref() {
            let taken = match record.kind {
                kind::LOAD => builder.load(record.time, record.body),
                kind::MOVE => builder.moved(record.time, record.body),
                kind::DEBUG_INFO => builder.lines(record.body),
                kind::UNWINDING => builder.unwinding(record.body),
                kind::CLOSE => break,
                _ => Some(()),
            };
            builder.dump.bad_records += u64::from(taken.is_none());
        }
        builder.dump.cut_at = records.cut_at();
        Ok(builder.finish())
    }

    /// Returns the index of the code at an address and a time in ns, or `u64::MAX` for the end.
    #[must_use]
    pub fn find(&self, avma: u64, time: u64) -> Option<u32> {
        let number = self.history.latest(avma, self.epoch(time))?;
        let code = self.codes.get(number as usize)?;
        code.function.as_ref().map(|_| number)
    }

    /// Returns the function with this index.
    #[must_use]
    pub fn function(&self, number: u32) -> Option<JitFunction<'_>> {
        let code = self.codes.get(number as usize)?;
        Some(JitFunction {
            name: text(&code.function.as_ref()?.name),
            start: code.start,
            size: code.size,
        })
    }

    /// Returns the source line at an address in the code with this index.
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

    /// Returns the unwinding information of the code with this index.
    #[must_use]
    pub fn unwinding(&self, number: u32) -> Option<JitUnwinding<'_>> {
        let code = self.codes.get(number as usize)?;
        let unwinding = code.function.as_ref()?.unwinding.as_ref()?;
        Some(unwinding.of(code.start, code.size))
    }

    /// Returns true if any code has unwinding information.
    #[must_use]
    pub fn has_unwinding(&self) -> bool {
        self.has_unwinding
    }

    /// Returns the function at an address at a time.
    #[must_use]
    pub fn lookup(&self, avma: u64, time: u64) -> Option<JitFunction<'_>> {
        self.function(self.find(avma, time)?)
    }

    /// Returns the number of records up to a time; all if they use [another
    /// clock](Self::has_other_clock). Lookups in the same epoch agree.
    #[must_use]
    pub fn epoch(&self, time: u64) -> u32 {
        let is_over = |code: &Code| self.has_other_clock || code.time <= time;
        self.codes.partition_point(is_over) as u32
    }

    /// Returns the number of code ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Returns true if there is no code.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Returns the time of the first code.
    #[must_use]
    pub fn begin(&self) -> Option<u64> {
        self.codes.first().map(|code| code.time)
    }

    /// Makes lookups return the final state, because the times are not those of samples.
    pub fn ignore_times(&mut self) {
        self.has_other_clock = true;
    }

    /// Returns true for times of the processor's counter, not comparable with sample times. Lookups
    /// then return the final state.
    #[must_use]
    pub fn has_other_clock(&self) -> bool {
        self.has_other_clock
    }

    /// Returns the file offset of the first truncated or damaged record.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// Returns the number of records too short for their fields.
    #[must_use]
    pub fn bad_records(&self) -> u64 {
        self.bad_records
    }

    /// Returns the number of records dropped above a million code ranges.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Lines of code: (offset in the function, file, line).
type Lines = Vec<(u64, u32, u32)>;

#[derive(Default)]
struct DumpBuilder {
    dump: JitDump,
    /// Lines by code address. Their record precedes the code.
    lines: FxHashMap<u64, Lines>,
    /// Unwinding information for the next code record.
    unwinding: Option<Unwinding>,
    /// Start and size of functions, by the runtime's code index.
    by_index: FxHashMap<u64, (u64, u64, Arc<Function>)>,
    files: FxHashMap<Box<str>, u32>,
}

impl DumpBuilder {
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
        // Without a load record, code only disappears.
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

    /// `code_addr, nr_entry: u64`, then entries of `code_addr: u64; line, discriminator: u32; name:
    /// [u8; ..], 0`. The name `\xff` repeats the previous name.
    fn lines(&mut self, body: Reader<'_>) -> Option<()> {
        let mut body = body;
        let (start, count) = (body.u64()?, body.u64()?);
        let mut lines: Lines = Vec::new();
        let mut file = None;
        for _ in 0..count {
            // The count may exceed the actual entries.
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
        // A move takes two entries.
        let has_room = self.dump.codes.len() + 2 <= MAX_CODES;
        self.dump.left_out += u64::from(!has_room);
        has_room
    }

    fn put(&mut self, time: u64, start: u64, size: u64, function: Option<Arc<Function>>) {
        // Truncate at the end of the address space.
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
        // Threads write records out of order. A stable sort keeps those with equal times in file
        // order.
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
