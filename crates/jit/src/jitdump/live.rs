//! [`LiveDump`]: a jitdump that is still being written, for who unwinds meanwhile.
//!
//! Only code with unwinding information is kept, and only what lies somewhere now. The runtime
//! may write later than it should, out of a buffer: what is not there yet is not known.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::reader::{HEADER, Header, PREFIX, Reader};
use super::unwinding::{JitUnwinding, Unwinding};
use super::{DumpError, MOST_CODES, kind};
use crate::{MapFile, Refusal};

/// Bytes that are read at once; no longer record is looked at beyond its head.
const AT_ONCE: usize = 1 << 20;

/// Most bytes of tables that are kept. V8 has some 100 for each function.
const MOST_KEPT: usize = 16 << 20;

/// Most bytes that one call looks at.
const MOST_AT_A_TIME: u64 = 32 << 20;

/// A jitdump, read as far as it was written.
#[derive(Debug)]
pub struct LiveDump {
    file: MapFile,
    header: Header,
    /// The first byte that was not looked at.
    at: u64,
    codes: BTreeMap<u64, Known>,
    /// Where code is, by the runtime's number for it.
    by_index: FxHashMap<u64, u64>,
    waiting: Option<Unwinding>,
    functions: u64,
    /// Bytes of the tables in `codes`.
    kept: usize,
}

/// Code that lies somewhere now.
#[derive(Clone, Debug)]
struct Known {
    size: u64,
    since: u64,
    /// The runtime's number for it.
    index: u64,
    /// Ours, which nothing else ever has.
    function: u64,
    unwinding: Arc<Unwinding>,
}

/// Code at an address.
#[derive(Clone, Copy, Debug)]
pub struct LiveCode<'a> {
    /// A number for the function, which stays the same when it moves.
    pub function: u64,
    /// How it is unwound.
    pub unwinding: JitUnwinding<'a>,
}

impl LiveDump {
    /// `None` as long as there is no header.
    ///
    /// # Errors
    /// [`DumpError`] where it is no such file, in an `Ok`; [`Refusal`] where it cannot be read.
    pub fn new(file: MapFile) -> Result<Option<Result<Self, DumpError>>, Refusal> {
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
            file,
            header,
            codes: BTreeMap::new(),
            by_index: FxHashMap::default(),
            waiting: None,
            functions: 0,
            kept: 0,
        })))
    }

    /// Takes in what was written since. Answers whether that was all.
    ///
    /// # Errors
    /// [`Refusal`]: the file cannot be read any more.
    pub fn read_on(&mut self) -> Result<bool, Refusal> {
        let end = self.at.saturating_add(MOST_AT_A_TIME);
        let mut buffer = Vec::new();
        while self.at < end {
            let len = self.file.len()?.saturating_sub(self.at);
            buffer.resize(AT_ONCE.min(usize::try_from(len).unwrap_or(AT_ONCE)), 0);
            let have = self.file.read_at(&mut buffer, self.at)?;
            let taken = self.take(&buffer[..have], len);
            if taken == 0 {
                return Ok(true);
            }
            self.at += taken;
        }
        Ok(false)
    }

    /// Takes in the records in these bytes, of which there are `len` in the file; answers how
    /// many are done with.
    fn take(&mut self, bytes: &[u8], len: u64) -> u64 {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..)
            && let Some((kind, size, time)) = self.header.record(rest)
            && size >= PREFIX
            && size as u64 <= len - done as u64
        {
            match rest.get(PREFIX..size) {
                Some(body) => self.record(kind, time, self.header.reader(body)),
                // The head of code is enough, however long it is.
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
                let known = unwinding.map(|unwinding| Known {
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
                let moved = known.map(|known| Known {
                    since: time,
                    ..known
                });
                self.put(to, size, moved);
            }
            _ => {}
        }
    }

    /// Code is at a place from now on, and what was there is not.
    fn put(&mut self, start: u64, size: u64, known: Option<Known>) {
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
            && self.codes.len() < MOST_CODES
            && self.kept + len <= MOST_KEPT
        {
            self.kept += len;
            // A number given twice means the later.
            self.by_index.insert(known.index, start);
            self.codes.insert(start, known);
        }
    }

    fn remove(&mut self, start: u64) -> Option<Known> {
        let known = self.codes.remove(&start)?;
        self.kept -= known.unwinding.len();
        Some(known)
    }

    /// The code at an address, if it was there at this time already and has unwinding information.
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
