//! [`Message`]: the outermost message and its string table.

use std::io::{self, Write};

use crate::gzip::Gzip;
use crate::protobuf::{Strings, part, signed, text};

pub(super) struct Message<'o> {
    out: Gzip<'o>,
    pub(super) strings: Strings,
    buffer: Vec<u8>,
    bytes: u64,
}

impl<'o> Message<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Message<'o> {
        Message {
            out: Gzip::new(out),
            strings: Strings::new(),
            buffer: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn field(&mut self, tag: u32, message: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        part(tag, message, &mut self.buffer);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        self.bytes += self.buffer.len() as u64;
        self.out.write_all(&self.buffer)
    }

    pub(super) fn number(&mut self, tag: u32, value: i64) -> io::Result<()> {
        self.buffer.clear();
        signed(tag, value, &mut self.buffer);
        self.write()
    }

    pub(super) fn value_type(&mut self, tag: u32, name: &str, unit: &str) -> io::Result<()> {
        let mut message = Vec::new();
        signed(1, self.strings.index(name), &mut message);
        signed(2, self.strings.index(unit), &mut message);
        self.field(tag, &message)
    }

    /// Writes the string table. Returns the size before compression, in bytes.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        for string in self.strings.in_order() {
            self.buffer.clear();
            text(6, string, &mut self.buffer);
            self.bytes += self.buffer.len() as u64;
            self.out.write_all(&self.buffer)?;
        }
        self.out.finish()?;
        Ok(self.bytes)
    }
}
