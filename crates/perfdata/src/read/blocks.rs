//! Records in blocks, for processing by several threads.

use std::borrow::Cow;

use rprof_records::{Endian, RecordType};

use crate::error::Damage;
use crate::read::inflate::Inflate;
use crate::read::walk::{RecordAt, Walk};

/// Minimum bytes of a block.
const BLOCK: usize = 1 << 20;

/// Expanded bytes that compressed records may have in any case.
const EXPANDED_FREE: u64 = 16 << 20;

/// Maximum expansion beyond that, per compressed byte. Zstandard can reach 30,000. Similar stack
/// dumps expand several hundred times, other records about ten times.
const EXPANDED_PER_BYTE: u64 = 1024;

/// Run of whole records.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// File offset of the first record. For decompressed records, the offset of the compressed
    /// record that completed them.
    pub offset: u64,
    /// Records, borrowed from the file unless decompressed.
    pub bytes: Cow<'a, [u8]>,
    pub(crate) endian: Endian,
}

impl Block<'_> {
    /// Iterates over the records.
    pub fn walk(&self) -> Walk<'_> {
        match &self.bytes {
            Cow::Borrowed(bytes) => Walk::new(bytes, self.offset, self.endian),
            Cow::Owned(bytes) => Walk::decompressed(bytes, self.offset, self.endian),
        }
    }

    pub(crate) fn walk_from(&self, at: usize) -> Walk<'_> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        match &self.bytes {
            Cow::Borrowed(_) => Walk::new(rest, self.offset + at as u64, self.endian),
            Cow::Owned(_) => Walk::decompressed(rest, self.offset, self.endian),
        }
    }

    pub(crate) fn record_at(&self, at: usize) -> Option<RecordAt<'_>> {
        self.walk_from(at).next()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DataRange<'a> {
    pub(crate) bytes: &'a [u8],
    /// File offset of the bytes.
    pub(crate) base: u64,
    /// Name of the file in its folder; empty for a single file.
    pub(crate) file: &'a str,
}

/// Splits the data of a recording into blocks, and decompresses it.
///
/// Holds at most one block and one partial record. Data that expands more than records can counts
/// as damaged.
///
/// A file ends at its first [`Damage`], an item after the blocks before it. In a folder, the other
/// files follow.
pub struct Blocks<'a> {
    next: std::vec::IntoIter<DataRange<'a>>,
    data: DataRange<'a>,
    at: usize,
    endian: Endian,
    inflate: Option<Inflate<'a>>,
    ended: bool,
    /// Damage, until it is returned.
    damage: Option<Damage>,
    /// Compressed bytes in all files, before and after expansion.
    compressed: u64,
    expanded: u64,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(ranges: Vec<DataRange<'a>>, endian: Endian) -> Blocks<'a> {
        let mut next = ranges.into_iter();
        let data = next.next();
        Blocks {
            next,
            ended: data.is_none(),
            data: data.unwrap_or(DataRange {
                bytes: &[],
                base: 0,
                file: "",
            }),
            at: 0,
            endian,
            inflate: None,
            damage: None,
            compressed: 0,
            expanded: 0,
        }
    }

    fn fail(&mut self, mut damage: Damage) {
        self.ended = true;
        if !self.data.file.is_empty() {
            damage.what = format!("in {}: {}", self.data.file, damage.what);
        }
        self.damage = Some(damage);
    }

    /// Opens the next file. Returns false if there is none.
    fn next_file(&mut self) -> bool {
        let Some(data) = self.next.next() else {
            return false;
        };
        // Each file has its own zstd stream.
        (self.data, self.at, self.inflate, self.ended) = (data, 0, None, false);
        true
    }

    fn inflated(&mut self) -> Option<Block<'a>> {
        let inflate = self.inflate.as_mut()?;
        let (bytes, damage) = inflate.next(self.endian)?;
        let offset = inflate.offset;
        self.expanded += bytes.len() as u64;
        if self.expanded > EXPANDED_FREE + self.compressed.saturating_mul(EXPANDED_PER_BYTE) {
            let what = format!(
                "{} bytes of compressed records expand more than {}-fold",
                self.compressed, EXPANDED_PER_BYTE
            );
            self.fail(Damage { offset, what });
        } else if let Some(damage) = damage {
            self.fail(damage);
        }
        Some(Block {
            offset,
            bytes: Cow::Owned(bytes),
            endian: self.endian,
        })
    }

    fn begin_inflate(&mut self, record: &'a [u8], kind: RecordType, offset: u64) {
        let damage = |what| Damage { offset, what };
        let Some(input) = compressed_bytes(record, kind, self.endian) else {
            return self.fail(damage(
                "a COMPRESSED2 record is shorter than its length field says".into(),
            ));
        };
        self.compressed += input.len() as u64;
        match &mut self.inflate {
            Some(inflate) => inflate.go_on(input, offset),
            None => match Inflate::new(input, offset) {
                Ok(inflate) => self.inflate = Some(inflate),
                Err(e) => self.fail(damage(format!("cannot decompress: {e}"))),
            },
        }
    }

    /// Reports damage if a zstd stream ends within a record.
    fn check_left_over(&mut self) {
        if let Some(inflate) = &self.inflate
            && inflate.left_over() > 0
        {
            let what = format!(
                "the compressed records end {} bytes into a record",
                inflate.left_over()
            );
            let offset = inflate.offset;
            self.fail(Damage { offset, what });
        }
    }

    /// Takes uncompressed records, perhaps none before a compressed one. `None` at the end.
    fn borrowed(&mut self) -> Option<Block<'a>> {
        let Some(rest) = self.data.bytes.get(self.at..).filter(|r| !r.is_empty()) else {
            self.check_left_over();
            return None;
        };
        let base = self.data.base + self.at as u64;
        let mut walk = Walk::new(rest, base, self.endian);
        let mut end;
        let mut compressed = None;
        loop {
            walk.skip_ordinary(BLOCK);
            end = walk.consumed();
            if end >= BLOCK {
                break;
            }
            let Some(walked) = walk.next() else { break };
            let kind = walked.record.kind;
            if matches!(kind, RecordType::COMPRESSED | RecordType::COMPRESSED2) {
                compressed = Some((kind, walked.offset, walked.bytes));
                break;
            }
            end = walk.consumed();
            if end >= BLOCK {
                break;
            }
        }
        self.at += end;
        if let Some(damage) = walk.damage() {
            self.fail(damage.clone());
        }
        if let Some((kind, offset, record)) = compressed {
            self.at += record.len();
            self.begin_inflate(record, kind, offset);
        }
        Some(Block {
            offset: base,
            bytes: Cow::Borrowed(&rest[..end]),
            endian: self.endian,
        })
    }
}

/// Returns a record's compressed bytes. COMPRESSED2 states their length, and has padding.
fn compressed_bytes(record: &[u8], kind: RecordType, endian: Endian) -> Option<&[u8]> {
    let body = record.get(8..)?;
    if kind != RecordType::COMPRESSED2 {
        return Some(body);
    }
    let (len, bytes) = body.split_first_chunk::<8>()?;
    bytes.get(..usize::try_from(endian.u64(*len)).ok()?)
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(damage) = self.damage.take() {
                return Some(Err(damage));
            }
            let block = match self.ended {
                true => None,
                false => self.inflated().or_else(|| self.borrowed()),
            };
            match block {
                Some(block) if block.bytes.is_empty() => {}
                Some(block) => return Some(Ok(block)),
                // A file ends with a truncated compressed record.
                None if self.damage.is_some() => {}
                None if self.next_file() => {}
                None => return None,
            }
        }
    }
}
