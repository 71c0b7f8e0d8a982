//! The records of a recording in pieces that can be handed to threads.

use std::borrow::Cow;

use rprof_records::{Endian, RecordType};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Damage;
use crate::walk::Walk;

/// Bytes after which a block ends.
const BLOCK: usize = 1 << 20;

/// Whole records, one behind the other.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// Where the first record stands in the file; for decompressed records
    /// where the compressed record stands that ended them.
    pub offset: u64,
    /// The records: borrowed from the file unless they had to be decompressed.
    pub bytes: Cow<'a, [u8]>,
    endian: Endian,
}

impl Block<'_> {
    /// Walks over the records.
    pub fn walk(&self) -> Walk<'_> {
        match &self.bytes {
            Cow::Borrowed(bytes) => Walk::new(bytes, self.offset, self.endian),
            Cow::Owned(bytes) => Walk::decompressed(bytes, self.offset, self.endian),
        }
    }
}

/// Cuts the data of a recording into blocks, decompressing what is compressed.
///
/// Memory is bounded: at most one block and one partial record are held, however
/// far the data expands. Ends at damage, which [`damage`](Self::damage) then tells.
pub struct Blocks<'a> {
    data: &'a [u8],
    at: usize,
    base: u64,
    endian: Endian,
    inflate: Option<Inflate<'a>>,
    damage: Option<Damage>,
}

/// A zstd stream that runs through the COMPRESSED records.
struct Inflate<'a> {
    decoder: Decoder<'static>,
    /// What is left of the compressed record at hand.
    input: &'a [u8],
    /// Where that record stands.
    offset: u64,
    /// The last call filled its output, so the decoder may hold more.
    more: bool,
    /// Decompressed bytes that do not make a whole record yet.
    carry: Vec<u8>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(data: &'a [u8], base: u64, endian: Endian) -> Blocks<'a> {
        Blocks {
            data,
            at: 0,
            base,
            endian,
            inflate: None,
            damage: None,
        }
    }

    /// Why the blocks ended before the end of the data, if they did.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// The next block out of the compressed record at hand, if there is one.
    fn inflate(&mut self) -> Option<Block<'a>> {
        let inflate = self.inflate.as_mut()?;
        if inflate.input.is_empty() && !inflate.more {
            return None;
        }
        let mut bytes = std::mem::take(&mut inflate.carry);
        let mut filled = bytes.len();
        bytes.resize(BLOCK + (1 << 16), 0);
        let mut input = InBuffer::around(inflate.input);
        let mut failure = None;
        loop {
            let before = (input.pos(), filled);
            let mut output = OutBuffer::around_pos(&mut bytes[..], filled);
            let result = inflate.decoder.run(&mut input, &mut output);
            filled = output.pos();
            if let Err(e) = result {
                failure = Some(format!("compressed records do not decompress: {e}"));
                break;
            }
            // All input taken and room left: everything is out.
            if filled == bytes.len() || (input.pos() == inflate.input.len() && before.1 == filled) {
                break;
            }
            if before == (input.pos(), filled) {
                failure = Some("compressed records end in the middle of their stream".into());
                break;
            }
        }
        let taken = input.pos();
        inflate.input = &inflate.input[taken..];
        inflate.more = filled == bytes.len();
        bytes.truncate(filled);
        let mut walk = Walk::decompressed(&bytes, inflate.offset, self.endian);
        walk.by_ref().for_each(drop);
        let whole = walk.consumed();
        let rest = &bytes[whole..];
        // A record not there as a whole waits for the next compressed one; a bad
        // header does not get better by waiting.
        let bad = walk.damage().filter(|_| {
            rest.len() >= 8 && self.endian.u16([rest[6], rest[7]]) < 8 || rest.len() > 1 << 16
        });
        if let Some(damage) = bad {
            self.damage = Some(damage.clone());
        } else if let Some(what) = failure {
            self.damage = Some(Damage {
                offset: inflate.offset,
                what,
            });
        } else {
            inflate.carry = rest.to_vec();
        }
        bytes.truncate(whole);
        Some(Block {
            offset: inflate.offset,
            bytes: Cow::Owned(bytes),
            endian: self.endian,
        })
    }

    /// Begins on a COMPRESSED or COMPRESSED2 record.
    fn begin_inflate(&mut self, record: &'a [u8], kind: RecordType, offset: u64) {
        let body = &record[8..];
        // COMPRESSED2 has the length of its data first, and is padded.
        let input = if kind == RecordType::COMPRESSED2 {
            let len = body.first_chunk::<8>().map(|b| self.endian.u64(*b));
            len.and_then(|len| usize::try_from(len).ok())
                .and_then(|len| body[8..].get(..len))
        } else {
            Some(body)
        };
        let Some(input) = input else {
            self.damage = Some(Damage {
                offset,
                what: "a COMPRESSED2 record says more bytes than it has".into(),
            });
            return;
        };
        match &mut self.inflate {
            Some(inflate) => {
                inflate.input = input;
                inflate.offset = offset;
            }
            None => match Decoder::new() {
                Ok(decoder) => {
                    self.inflate = Some(Inflate {
                        decoder,
                        input,
                        offset,
                        more: false,
                        carry: Vec::new(),
                    });
                }
                Err(e) => {
                    self.damage = Some(Damage {
                        offset,
                        what: format!("cannot decompress: {e}"),
                    });
                }
            },
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        loop {
            if self.damage.is_some() {
                return None;
            }
            if let Some(block) = self.inflate() {
                if block.bytes.is_empty() {
                    continue;
                }
                return Some(block);
            }
            let rest = self.data.get(self.at..).filter(|r| !r.is_empty())?;
            let base = self.base + self.at as u64;
            let mut walk = Walk::new(rest, base, self.endian);
            let mut end = 0;
            let mut compressed = None;
            while let Some(walked) = walk.next() {
                let kind = walked.record.kind;
                if matches!(kind, RecordType::COMPRESSED | RecordType::COMPRESSED2) {
                    compressed = Some((kind, walked.offset, end..walk.consumed()));
                    break;
                }
                end = walk.consumed();
                if end >= BLOCK {
                    break;
                }
            }
            self.damage = walk.damage().cloned();
            self.at += match &compressed {
                Some((_, _, range)) => range.end,
                None => end,
            };
            if let Some((kind, offset, range)) = compressed {
                self.begin_inflate(&rest[range], kind, offset);
            }
            if end > 0 {
                return Some(Block {
                    offset: base,
                    bytes: Cow::Borrowed(&rest[..end]),
                    endian: self.endian,
                });
            }
        }
    }
}
