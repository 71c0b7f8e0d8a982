//! Fields of protocol buffers (<https://protobuf.dev/programming-guides/encoding/>), and the table of strings.

use prost::encoding::{WireType, bool, encode_key, encode_varint, fixed64, int64, string, uint64};
use rustc_hash::FxHashMap;

/// Writes a field that holds a message.
pub fn part(tag: u32, message: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

/// Writes a text, empty ones too: the first of the string table is.
pub fn text(tag: u32, value: &str, out: &mut Vec<u8>) {
    string::encode(tag, &value.to_owned(), out);
}

/// Writes a number. Zero is what a field has by itself.
pub fn signed(tag: u32, value: i64, out: &mut Vec<u8>) {
    if value != 0 {
        int64::encode(tag, &value, out);
    }
}

/// Writes a number without a sign, unless it is zero.
pub fn unsigned(tag: u32, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        uint64::encode(tag, &value, out);
    }
}

/// Writes a number, even if it is zero.
pub fn number(tag: u32, value: i64, out: &mut Vec<u8>) {
    int64::encode(tag, &value, out);
}

/// Writes a number of 64 bits without a sign, as it is in memory.
pub fn fixed(tag: u32, value: u64, out: &mut Vec<u8>) {
    fixed64::encode(tag, &value, out);
}

/// Writes a truth value, if it is true.
pub fn flag(tag: u32, value: bool, out: &mut Vec<u8>) {
    if value {
        bool::encode(tag, &value, out);
    }
}

/// Writes a list of numbers in one field.
pub fn packed_unsigned(tag: u32, values: &[u64], out: &mut Vec<u8>) {
    uint64::encode_packed(tag, values, out);
}

/// Writes a list of numbers with signs in one field.
pub fn packed_signed(tag: u32, values: &[i64], out: &mut Vec<u8>) {
    int64::encode_packed(tag, values, out);
}

/// Strings by their number in the message; number 0 is the empty one.
pub(crate) struct Strings {
    numbers: FxHashMap<Box<str>, i64>,
}

impl Strings {
    pub(crate) fn new() -> Strings {
        Strings {
            numbers: FxHashMap::from_iter([("".into(), 0)]),
        }
    }

    /// Returns the number of a string, which is given one if it has none yet.
    pub(crate) fn index(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as i64;
        self.numbers.insert(text.into(), number);
        number
    }

    /// Returns the strings by number.
    pub(crate) fn in_order(&self) -> Vec<&str> {
        let mut all: Vec<(&i64, &str)> = (self.numbers.iter())
            .map(|(text, number)| (number, &**text))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, text)| text).collect()
    }
}
