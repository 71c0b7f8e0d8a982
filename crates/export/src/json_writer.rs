//! [`JsonWriter`]: objects, lists and columns, written as they come.

use std::io::{self, Write};

use serde::Serialize;

/// JSON under way. Commas are put where a value follows another.
pub(crate) struct JsonWriter<W> {
    out: W,
    needs_comma: bool,
}

impl<W: Write> JsonWriter<W> {
    /// Begins a document. `out` is buffered.
    pub(crate) fn new(out: W) -> JsonWriter<W> {
        JsonWriter {
            out,
            needs_comma: false,
        }
    }

    /// Ends the document with a line feed.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n")?;
        Ok(self.out)
    }

    /// Begins an object, as a value of its own or behind a key.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.open(b"{")
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.close(b"}")
    }

    /// Begins a list.
    pub(crate) fn begin_list(&mut self) -> io::Result<()> {
        self.open(b"[")
    }

    pub(crate) fn end_list(&mut self) -> io::Result<()> {
        self.close(b"]")
    }

    /// Writes a key, whose value follows.
    pub(crate) fn key(&mut self, key: &str) -> io::Result<()> {
        self.comma()?;
        serde_json::to_writer(&mut self.out, key)?;
        self.needs_comma = false;
        self.out.write_all(b":")
    }

    /// Writes a key with its value.
    pub(crate) fn value(&mut self, key: &str, value: &impl Serialize) -> io::Result<()> {
        self.key(key)?;
        self.item(value)
    }

    /// Writes a value of a list.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.comma()?;
        serde_json::to_writer(&mut self.out, value)?;
        self.needs_comma = true;
        Ok(())
    }

    /// Writes several values of a list that are JSON already, with commas between them; nothing if the text is empty.
    pub(crate) fn raw_items(&mut self, items: &str) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        self.comma()?;
        self.needs_comma = true;
        self.out.write_all(items.as_bytes())
    }

    /// Writes a key with a list of values, none of which is held.
    pub(crate) fn column<T: Serialize>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_values() {
        let mut json = JsonWriter::new(Vec::new());
        json.begin().unwrap();
        json.value("a", &1).unwrap();
        json.column("b", ["x\"", "y"]).unwrap();
        json.key("c").unwrap();
        json.begin_list().unwrap();
        json.raw_items("").unwrap();
        json.raw_items("2,3").unwrap();
        json.raw_items("4").unwrap();
        json.begin_list().unwrap();
        json.end_list().unwrap();
        json.item(&5).unwrap();
        json.end_list().unwrap();
        json.end().unwrap();
        let text = String::from_utf8(json.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"a\":1,\"b\":[\"x\\\"\",\"y\"],\"c\":[2,3,4,[],5]}\n"
        );
    }
}
