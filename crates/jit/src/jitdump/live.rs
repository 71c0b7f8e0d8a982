//! [`LiveDump`]: a growing jitdump, for unwinding during recording.
//!
//! Keeps only code that is in place and has unwinding information. Runtimes buffer records, so
//! these may arrive late.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::format::{DumpError, HEADER, Header, MAX_CODES, PREFIX, Reader, kind, set_back};
use super::unwinding::{JitUnwinding, Unwinding};
use crate::source::{MapFile, Refusal};

/// Bytes per read. Longer records are parsed in part.
const READ_SIZE: usize = 1 << 20;

/// Maximum number of `.eh_frame` bytes to keep. V8 writes about 100 per function.
const MAX_KEPT: usize = 16 << 20;

/// The records of a growing jitdump so far.
#[derive(Debug)]
pub struct LiveDump {
    /// Device and inode.
    file: (u64, u64),
    header: Header,
    /// Nanoseconds by which its times are ahead of the kernel's.
    clock_ahead: i64,
    /// Offset of the first unparsed byte.
    at: u64,
    codes: BTreeMap<u64, PlacedCode>,
    /// Address of code, by the runtime's code index.
    by_index: FxHashMap<u64, u64>,
    waiting: Option<Unwinding>,
    functions: u64,
    /// `.eh_frame` bytes in `codes`.
    kept: usize,
}

#[derive(Clone, Debug)]
struct PlacedCode {
    size: u64,
    since: u64,
    /// The runtime's code index.
    index: u64,
    /// Our own number, never reused.
    function: u64,
    unwinding: Arc<Unwinding>,
}

/// Code at an address.
#[derive(Clone, Copy, Debug)]
pub struct LiveCode<'a> {
    /// Number of the function, unchanged when it moves.
    pub function: u64,
    /// Unwinding information of the code at its current address.
    pub unwinding: JitUnwinding<'a>,
}

impl LiveDump {
    /// Parses the header. `None` while it is incomplete.
    ///
    /// # Errors
    /// [`Refusal`], if the file cannot be read. The inner `DumpError`, if it is no jitdump.
    pub fn new(file: &MapFile) -> Result<Option<Result<Self, DumpError>>, Refusal> {
        let mut bytes = [0; HEADER];
        if file.read_at(&mut bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        let header = match Header::parse_start(&bytes) {
            Ok(header) => header,
            Err(error) => return Ok(Some(Err(error))),
        };
        Ok(Some(Ok(Self {
            at: header.len as u64,
            file: file.identity(),
            header,
            clock_ahead: file.clock_ahead(),
            codes: BTreeMap::new(),
            by_index: FxHashMap::default(),
            waiting: None,
            functions: 0,
            kept: 0,
        })))
    }

    /// Parses about `most` bytes of new records. Returns the number of bytes, and true if none are
    /// left. Ignores another file.
    ///
    /// # Errors
    /// [`Refusal`], if the file cannot be read.
    pub fn read_on(&mut self, file: &MapFile, most: u64) -> Result<(u64, bool), Refusal> {
        if file.identity() != self.file {
            return Ok((0, true));
        }
        let begin = self.at;
        let end = self.at.saturating_add(most);
        let mut buffer = Vec::new();
        while self.at < end {
            let len = file.len()?.saturating_sub(self.at);
            let size = READ_SIZE.min(usize::try_from(len).unwrap_or(READ_SIZE));
            buffer.resize(size, 0);
            let have = file.read_at(&mut buffer, self.at)?;
            let taken = self.parse_records(&buffer[..have], len);
            if taken == 0 {
                return Ok((self.at - begin, true));
            }
            self.at += taken;
        }
        let is_all = file.len()? <= self.at;
        Ok((self.at - begin, is_all))
    }

    /// Parses the records in `bytes`; the file has `len` bytes from there. Returns the number of
    /// bytes consumed.
    fn parse_records(&mut self, bytes: &[u8], len: u64) -> u64 {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..)
            && let Some((kind, size, time)) = self.header.record(rest)
            && size >= PREFIX
            && size as u64 <= len - done as u64
        {
            let time = set_back(time, self.clock_ahead);
            match rest.get(PREFIX..size) {
                Some(body) => self.record(kind, time, self.header.reader(body)),
                None if done == 0 => self.record(kind, time, self.header.reader(&rest[PREFIX..])),
                None => break,
            }
            done += size;
        }
        done as u64
    }

    fn record(&mut self, kind: u32, time: u64, mut body: Reader<'_>) {
        match kind {
            kind::UNWINDING => self.waiting = Unwinding::parse(body).flatten(),
            kind::LOAD => {
                let waiting = self.waiting.take();
                // pid, tid, vma.
                let read = body.skip(4 + 4 + 8);
                let read = read.and_then(|()| Some((body.u64()?, body.u64()?, body.u64()?)));
                let Some((start, size, index)) = read else {
                    return;
                };
                let unwinding = waiting.map(Arc::new);
                self.functions += 1;
                let known = unwinding.map(|unwinding| PlacedCode {
                    size,
                    since: time,
                    index,
                    function: self.functions,
                    unwinding,
                });
                self.put(start, size, known);
            }
            kind::MOVE => {
                // pid, tid, vma; from, to, size.
                let read = body.skip(4 + 4 + 8);
                let read =
                    read.and_then(|()| Some((body.u64()?, body.u64()?, body.u64()?, body.u64()?)));
                let Some((_, to, size, index)) = read else {
                    return;
                };
                let from = self.by_index.remove(&index);
                let known = from.and_then(|from| self.remove(from));
                let size = known.as_ref().map_or(size, |known| known.size);
                let moved = known.map(|known| PlacedCode {
                    since: time,
                    ..known
                });
                self.put(to, size, moved);
            }
            _ => {}
        }
    }

    /// Adds code and removes the code that it overlaps.
    fn put(&mut self, start: u64, size: u64, known: Option<PlacedCode>) {
        if size == 0 {
            return;
        }
        let last = start.saturating_add(size - 1);
        loop {
            let before = self.codes.range(..=last).next_back();
            let overlaps = before.filter(|(at, known)| at.saturating_add(known.size) > start);
            let Some(at) = overlaps.map(|(at, _)| *at) else {
                break;
            };
            let gone = self.remove(at);
            if let Some(index) = gone.map(|gone| gone.index)
                && self.by_index.get(&index) == Some(&at)
            {
                self.by_index.remove(&index);
            }
        }
        let len = known.as_ref().map_or(0, |known| known.unwinding.len());
        if let Some(known) = known
            && self.codes.len() < MAX_CODES
            && self.kept + len <= MAX_KEPT
        {
            self.kept += len;
            // A duplicate index refers to the later function.
            self.by_index.insert(known.index, start);
            self.codes.insert(start, known);
        }
    }

    fn remove(&mut self, start: u64) -> Option<PlacedCode> {
        let known = self.codes.remove(&start)?;
        self.kept -= known.unwinding.len();
        Some(known)
    }

    /// Returns the code with unwinding information at an address and a time.
    #[must_use]
    pub fn find(&self, avma: u64, time: u64) -> Option<LiveCode<'_>> {
        let (start, known) = self.codes.range(..=avma).next_back()?;
        let is_right =
            avma - start < known.size && (known.since <= time || self.header.has_other_clock);
        is_right.then(|| LiveCode {
            function: known.function,
            unwinding: known.unwinding.of(*start, known.size),
        })
    }
}
