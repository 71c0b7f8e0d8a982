//! [`Json`]: objects, lists and columns, written as they come.

use std::io::{self, Write};

use serde::Serialize;

/// JSON under way. Commas are put where a value follows another.
pub(super) struct Json<'o> {
    out: &'o mut dyn Write,
    needs_comma: bool,
}

impl<'o> Json<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Json<'o> {
        Json {
            out,
            needs_comma: false,
        }
    }

    /// Begins an object, as a value of its own or behind a key.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.open(b"{")
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.close(b"}")
    }

    /// Begins a list.
    pub(super) fn begin_list(&mut self) -> io::Result<()> {
        self.open(b"[")
    }

    pub(super) fn end_list(&mut self) -> io::Result<()> {
        self.close(b"]")
    }

    /// Writes a key, whose value follows.
    pub(super) fn key(&mut self, key: &str) -> io::Result<()> {
        self.comma()?;
        serde_json::to_writer(&mut *self.out, key)?;
        self.needs_comma = false;
        self.out.write_all(b":")
    }

    /// Writes a key with its value.
    pub(super) fn value(&mut self, key: &str, value: &impl Serialize) -> io::Result<()> {
        self.key(key)?;
        self.item(value)
    }

    /// Writes a value of a list.
    pub(super) fn item(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.comma()?;
        serde_json::to_writer(&mut *self.out, value)?;
        self.needs_comma = true;
        Ok(())
    }

    /// Writes a key with a list of values, none of which is held.
    pub(super) fn column<T: Serialize>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        self.key(key)?;
        self.begin_list()?;
        for value in values {
            self.item(&value)?;
        }
        self.end_list()
    }

    fn comma(&mut self) -> io::Result<()> {
        match self.needs_comma {
            true => self.out.write_all(b","),
            false => Ok(()),
        }
    }

    fn open(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.comma()?;
        self.needs_comma = false;
        self.out.write_all(bracket)
    }

    fn close(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.needs_comma = true;
        self.out.write_all(bracket)
    }
}
