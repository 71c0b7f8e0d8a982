//! [`JsonWriter`]: streams objects, lists and columns.

use std::io::{self, Write};

use serde::Serialize;

pub(crate) struct JsonWriter<W> {
    out: W,
    /// Buffered output. Most values have only a few bytes.
    text: Vec<u8>,
    needs_comma: bool,
}

const TEXT: usize = 32 << 10;

impl<W: Write> JsonWriter<W> {
    pub(crate) fn new(out: W) -> JsonWriter<W> {
        JsonWriter {
            out,
            text: Vec::with_capacity(TEXT + 1024),
            needs_comma: false,
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.text.push(b'\n');
        self.out.write_all(&self.text)?;
        Ok(self.out)
    }

    /// Begins an object, as a list element or after a key.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.open(b'{')
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.close(b'}')
    }

    pub(crate) fn begin_list(&mut self) -> io::Result<()> {
        self.open(b'[')
    }

    pub(crate) fn end_list(&mut self) -> io::Result<()> {
        self.close(b']')
    }

    pub(crate) fn key(&mut self, key: &str) -> io::Result<()> {
        self.comma();
        serde_json::to_writer(&mut self.text, key)?;
        self.needs_comma = false;
        self.text.push(b':');
        Ok(())
    }

    pub(crate) fn value(&mut self, key: &str, value: &impl Serialize) -> io::Result<()> {
        self.key(key)?;
        self.item(value)
    }

    pub(crate) fn value_with<T>(
        &mut self,
        key: &str,
        value: T,
        write: impl Fn(T, &mut Vec<u8>),
    ) -> io::Result<()> {
        self.key(key)?;
        write(value, &mut self.text);
        self.needs_comma = true;
        Ok(())
    }

    pub(crate) fn item(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.comma();
        serde_json::to_writer(&mut self.text, value)?;
        self.needs_comma = true;
        self.hand_on()
    }

    /// Writes comma-separated list elements that are already JSON.
    pub(crate) fn raw_items(&mut self, items: &str) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        self.comma();
        self.needs_comma = true;
        self.text.extend_from_slice(items.as_bytes());
        self.hand_on()
    }

    /// Writes a key and a list of values, which it streams.
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

    /// Like [`column`](Self::column), but `write` appends each value as JSON.
    pub(crate) fn column_with<T>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>),
    ) -> io::Result<()> {
        self.key(key)?;
        self.begin_list()?;
        for value in values {
            self.comma();
            write(value, &mut self.text);
            self.needs_comma = true;
            self.hand_on()?;
        }
        self.end_list()
    }

    #[inline]
    fn comma(&mut self) {
        if self.needs_comma {
            self.text.push(b',');
        }
    }

    fn open(&mut self, bracket: u8) -> io::Result<()> {
        self.comma();
        self.needs_comma = false;
        self.text.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> io::Result<()> {
        self.needs_comma = true;
        self.text.push(bracket);
        self.hand_on()
    }

    #[inline]
    fn hand_on(&mut self) -> io::Result<()> {
        if self.text.len() >= TEXT {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

/// Appends nanoseconds as milliseconds, with as many decimals as needed.
pub(crate) fn milliseconds(nanoseconds: u64, text: &mut Vec<u8>) {
    const NANOSECONDS: u64 = 1_000_000;
    number(nanoseconds / NANOSECONDS, text);
    let mut rest = nanoseconds % NANOSECONDS;
    if rest == 0 {
        return;
    }
    let mut decimals = [b'0'; 6];
    for decimal in decimals.iter_mut().rev() {
        *decimal += (rest % 10) as u8;
        rest /= 10;
    }
    let last = decimals.iter().rposition(|decimal| *decimal != b'0');
    text.push(b'.');
    text.extend_from_slice(&decimals[..=last.unwrap_or(0)]);
}

pub(crate) fn number(mut number: u64, text: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[begin..]);
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

    #[test]
    fn long_columns_are_handed_on_whole() {
        let mut json = JsonWriter::new(Vec::new());
        json.begin().unwrap();
        json.column("a", 0..50_000u32).unwrap();
        json.column_with("b", 0..50_000u64, number).unwrap();
        json.end().unwrap();
        let bytes = json.finish().unwrap();
        let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read["a"], read["b"]);
        assert_eq!(read["a"].as_array().unwrap().len(), 50_000);
    }

    #[test]
    fn nanoseconds_are_milliseconds_to_the_last_digit() {
        let text = |nanoseconds| {
            let mut text = Vec::new();
            milliseconds(nanoseconds, &mut text);
            String::from_utf8(text).unwrap()
        };
        let shown = [0, 1, 10, 1_000_000, 1_000_001, 1_500_000, 999_999].map(text);
        let expected = [
            "0", "0.000001", "0.00001", "1", "1.000001", "1.5", "0.999999",
        ];
        assert_eq!(shown, expected);
        assert_eq!(text(u64::MAX), "18446744073709.551615");
    }
}
