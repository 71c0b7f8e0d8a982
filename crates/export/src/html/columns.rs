//! Sections of a page's data: columns of numbers, or text, deflated, in base64.
//!
//! A column stores first the lowest byte of all numbers, then the next, as many as the largest
//! number needs. This deflates to a third of the size of rows, and decodes into a typed array
//! without parsing single numbers. A column with one distinct value has no bytes: its value is in
//! the index.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;

#[derive(Debug)]
pub(super) struct Section {
    pub(super) entry: SectionEntry,
    /// Deflated bytes in base64, which has no markup characters.
    pub(super) text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct SectionEntry {
    /// Name of the section, and suffix of its element's id.
    pub(super) name: String,
    /// Size before compression, in bytes.
    raw: usize,
    rows: usize,
    columns: Vec<ColumnEntry>,
}

#[derive(Debug, Serialize)]
struct ColumnEntry {
    name: &'static str,
    /// Bytes per number.
    width: usize,
    /// Value of all rows, if the column has no bytes.
    value: u64,
}

impl Section {
    pub(super) fn of_text(name: &str, text: &str) -> io::Result<Section> {
        Section::new(name, text.as_bytes(), 0, Vec::new())
    }

    /// Creates a section of columns with `rows` numbers each. Pads shorter columns with zeros.
    pub(super) fn of_columns(
        name: &'static str,
        rows: usize,
        columns: &[(&'static str, &[u64])],
    ) -> io::Result<Section> {
        let mut bytes = Vec::new();
        let mut entries = Vec::new();
        for (name, numbers) in columns {
            let first = numbers.first().copied().unwrap_or(0);
            let is_constant = numbers.iter().all(|number| *number == first);
            let is_whole = numbers.len() == rows || first == 0;
            let (width, value) = match is_constant && is_whole {
                true => (0, first),
                false => (bytes_of(numbers.iter().copied().max().unwrap_or(0)), 0),
            };
            for byte in 0..width {
                bytes.extend(numbers.iter().map(|number| (number >> (8 * byte)) as u8));
                bytes.resize(bytes.len() + rows.saturating_sub(numbers.len()), 0);
            }
            entries.push(ColumnEntry { name, width, value });
        }
        Section::new(name, &bytes, rows, entries)
    }

    fn new(
        name: &str,
        bytes: &[u8],
        rows: usize,
        columns: Vec<ColumnEntry>,
    ) -> io::Result<Section> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes)?;
        Ok(Section {
            entry: SectionEntry {
                name: name.to_owned(),
                raw: bytes.len(),
                rows,
                columns,
            },
            text: STANDARD.encode(encoder.finish()?),
        })
    }
}

fn bytes_of(number: u64) -> usize {
    (64 - number.leading_zeros() as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn bytes(section: &Section) -> Vec<u8> {
        let deflated = STANDARD.decode(&section.text).unwrap();
        let mut bytes = Vec::new();
        let mut decoder = flate2::read::DeflateDecoder::new(&deflated[..]);
        decoder.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn columns_are_stored_byte_by_byte() {
        let columns: [(_, &[u64]); 3] = [("a", &[1, 0x203]), ("b", &[7, 7]), ("c", &[])];
        let section = Section::of_columns("x", 2, &columns).unwrap();
        assert_eq!(bytes(&section), [1, 3, 0, 2]);
        assert_eq!(section.entry.raw, 4);
        let entries = serde_json::to_string(&section.entry.columns).unwrap();
        assert_eq!(
            entries,
            r#"[{"name":"a","width":2,"value":0},{"name":"b","width":0,"value":7},{"name":"c","width":0,"value":0}]"#
        );
    }

    #[test]
    fn text_is_stored_as_it_is() {
        let section = Section::of_text("x", "</script>ä\n").unwrap();
        assert_eq!(bytes(&section), "</script>ä\n".as_bytes());
        assert!(!section.text.contains('<'));
    }
}
