//! [`Message`]: the profile's own message, and its table of strings.

use std::io::{self, Write};

use crate::gzip::Gzip;
use crate::protobuf::{Strings, part, signed, text};

/// The message of a profile, compressed while it is made, with the strings that it names so far.
pub(super) struct Message<'o> {
    out: Gzip<'o>,
    pub(super) strings: Strings,
    buffer: Vec<u8>,
    /// Bytes so far, before compression.
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

    /// Writes a message within the message.
    pub(super) fn field(&mut self, tag: u32, message: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        part(tag, message, &mut self.buffer);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        self.bytes += self.buffer.len() as u64;
        self.out.write_all(&self.buffer)
    }

    /// Writes a number, unless it is zero.
    pub(super) fn number(&mut self, tag: u32, value: i64) -> io::Result<()> {
        self.buffer.clear();
        signed(tag, value, &mut self.buffer);
        self.write()
    }

    /// Writes a name with its unit.
    pub(super) fn value_type(&mut self, tag: u32, name: &str, unit: &str) -> io::Result<()> {
        let mut message = Vec::new();
        signed(1, self.strings.index(name), &mut message);
        signed(2, self.strings.index(unit), &mut message);
        self.field(tag, &message)
    }

    /// Writes the strings, which are all known now. Returns the bytes of the message, before compression.
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
