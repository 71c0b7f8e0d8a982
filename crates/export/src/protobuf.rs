//! Encoder of protobuf fields (<https://protobuf.dev/programming-guides/encoding/>), and string
//! table.

use prost::encoding::{WireType, bool, encode_key, encode_varint, fixed64, int64, string, uint64};
use rustc_hash::FxHashMap;

/// Writes a nested message.
pub fn part(tag: u32, message: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

/// Writes a string, even if it is empty: the first entry of a string table is.
pub fn text(tag: u32, value: &str, out: &mut Vec<u8>) {
    string::encode(tag, &value.to_owned(), out);
}

/// Writes an integer, unless it is zero, the default.
pub fn signed(tag: u32, value: i64, out: &mut Vec<u8>) {
    if value != 0 {
        int64::encode(tag, &value, out);
    }
}

/// Writes an unsigned integer, unless it is zero.
pub fn unsigned(tag: u32, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        uint64::encode(tag, &value, out);
    }
}

/// Writes an integer, even if it is zero.
pub fn number(tag: u32, value: i64, out: &mut Vec<u8>) {
    int64::encode(tag, &value, out);
}

/// Writes a fixed64 field.
pub fn fixed(tag: u32, value: u64, out: &mut Vec<u8>) {
    fixed64::encode(tag, &value, out);
}

/// Writes a boolean, if it is true.
pub fn flag(tag: u32, value: bool, out: &mut Vec<u8>) {
    if value {
        bool::encode(tag, &value, out);
    }
}

/// Writes a packed list of unsigned integers.
pub fn packed_unsigned(tag: u32, values: &[u64], out: &mut Vec<u8>) {
    uint64::encode_packed(tag, values, out);
}

/// Writes a packed list of signed integers.
pub fn packed_signed(tag: u32, values: &[i64], out: &mut Vec<u8>) {
    int64::encode_packed(tag, values, out);
}

pub(crate) struct Strings {
    numbers: FxHashMap<Box<str>, i64>,
}

impl Strings {
    pub(crate) fn new() -> Strings {
        Strings {
            numbers: FxHashMap::from_iter([("".into(), 0)]),
        }
    }

    pub(crate) fn index(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as i64;
        self.numbers.insert(text.into(), number);
        number
    }

    pub(crate) fn in_order(&self) -> Vec<&str> {
        let mut all: Vec<(&i64, &str)> = (self.numbers.iter())
            .map(|(text, number)| (number, &**text))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, text)| text).collect()
    }
}
