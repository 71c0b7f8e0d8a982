//! The zstd stream that runs through the COMPRESSED records of a file.

use std::io;

use rprof_records::Endian;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Damage;
use crate::read::walk::Walk;

/// Most bytes decompressed at once, with what was left of the time before.
const AT_ONCE: usize = (1 << 20) + (1 << 16);

/// Longest record of the kernel or perf. simpleperf's longer ones are not compressed.
const LONGEST_RECORD: usize = 1 << 16;

/// A zstd stream that may be cut anywhere: in a record's middle, and in a block's.
pub(crate) struct Inflate<'a> {
    decoder: Decoder<'static>,
    /// Rest of the compressed record at hand.
    input: &'a [u8],
    /// Offset of that record.
    pub(crate) offset: u64,
    /// The last call filled its output, so the decoder may hold more.
    more: bool,
    /// Buffer for decompressed bytes, used again and again: a file may consist of
    /// millions of compressed records of a few bytes.
    scratch: Vec<u8>,
    /// Bytes at the start of `scratch` that do not make a whole record yet.
    carried: usize,
}

impl<'a> Inflate<'a> {
    /// Begins with the bytes of the first compressed record, which stands at `offset`.
    pub(crate) fn new(input: &'a [u8], offset: u64) -> io::Result<Inflate<'a>> {
        Ok(Inflate {
            decoder: Decoder::new()?,
            input,
            offset,
            more: false,
            scratch: vec![0; AT_ONCE],
            carried: 0,
        })
    }

    /// Goes on with the bytes of another.
    pub(crate) fn go_on(&mut self, input: &'a [u8], offset: u64) {
        (self.input, self.offset) = (input, offset);
    }

    /// Returns the number of bytes of a record that is not there as a whole.
    pub(crate) fn left_over(&self) -> usize {
        self.carried
    }

    /// Returns whole records out of the record at hand, perhaps none, and what is wrong
    /// behind them. `None` when it is used up.
    pub(crate) fn next(&mut self, endian: Endian) -> Option<(Vec<u8>, Option<Damage>)> {
        if self.input.is_empty() && !self.more {
            return None;
        }
        let mut filled = self.carried;
        let mut input = InBuffer::around(self.input);
        let mut failure = None;
        loop {
            let before = (input.pos(), filled);
            let mut output = OutBuffer::around_pos(&mut self.scratch[..], filled);
            let result = self.decoder.run(&mut input, &mut output);
            filled = output.pos();
            if let Err(e) = result {
                failure = Some(format!("cannot decompress records: {e}"));
                break;
            }
            // All input taken and room left: everything is out.
            let taken = input.pos() == self.input.len() && before.1 == filled;
            if filled == self.scratch.len() || taken {
                break;
            }
            if before == (input.pos(), filled) {
                failure = Some("compressed records end in the middle of their stream".into());
                break;
            }
        }
        self.input = &self.input[input.pos()..];
        self.more = filled == self.scratch.len();
        let bytes = &self.scratch[..filled];
        let mut walk = Walk::decompressed(bytes, self.offset, endian);
        walk.by_ref().for_each(drop);
        let whole = walk.consumed();
        let rest = &bytes[whole..];
        // A record not there as a whole waits for the next compressed one; a bad
        // header does not get better by waiting.
        let hopeless =
            rest.len() >= LONGEST_RECORD || rest.len() >= 8 && endian.u16([rest[6], rest[7]]) < 8;
        let damage = match failure {
            Some(what) => Some(Damage {
                offset: self.offset,
                what,
            }),
            None => walk.damage().filter(|_| hopeless).cloned(),
        };
        let records = bytes[..whole].to_vec();
        self.carried = rest.len();
        if whole > 0 {
            self.scratch.copy_within(whole..filled, 0);
        }
        Some((records, damage))
    }
}
