use std::io;

use rprof_records::Endian;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Damage;
use crate::read::walk::Walk;

/// Maximum bytes decompressed at once, with the partial record before.
const AT_ONCE: usize = (1 << 20) + (1 << 16);

/// Maximum length of a record. simpleperf's longer ones are never compressed.
const LONGEST_RECORD: usize = 1 << 16;

/// The stream may be cut anywhere: within a record or a zstd block.
pub(crate) struct Inflate<'a> {
    decoder: Decoder<'static>,
    input: &'a [u8],
    pub(crate) offset: u64,
    /// The last call filled its output, so the decoder may hold more.
    more: bool,
    /// Reused buffer: a file may contain millions of small compressed records.
    scratch: Vec<u8>,
    /// Bytes of a partial record at the start of `scratch`.
    carried: usize,
}

impl<'a> Inflate<'a> {
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

    pub(crate) fn go_on(&mut self, input: &'a [u8], offset: u64) {
        (self.input, self.offset) = (input, offset);
    }

    pub(crate) fn left_over(&self) -> usize {
        self.carried
    }

    /// Returns whole records, possibly none, and damage after them. `None` at the end of the
    /// compressed record.
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
            // Input consumed and output not full: the decoder is empty.
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
        // A partial record waits for the next compressed one. An invalid header never becomes
        // valid.
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
