//! Values of expressions: integers, bytes and strings.

use std::borrow::Cow;

use rprof_records::{Endian, RawBytes};

/// C integer, of one of two kinds: 64-bit unsigned, and all others, which fit into 64-bit signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) bits: u64,
    pub(crate) unsigned: bool,
}

impl Number {
    pub(crate) fn signed(value: i64) -> Number {
        Number {
            bits: value as u64,
            unsigned: false,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.bits == 0
    }
}

/// Bytes of the payload, as an array of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) element: Integer,
}

/// Width and sign of an integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    /// Bytes: 1, 2, 4 or 8.
    pub(crate) size: u8,
    pub(crate) signed: bool,
}

impl Integer {
    pub(crate) const BYTE: Integer = Integer {
        size: 1,
        signed: false,
    };

    /// Returns the type of integers of this many bytes, if it exists.
    pub(crate) fn new(size: u32, signed: bool) -> Option<Integer> {
        let size = u8::try_from(size).ok()?;
        matches!(size, 1 | 2 | 4 | 8).then_some(Integer { size, signed })
    }

    pub(crate) fn read(self, bytes: &[u8], at: usize, endian: Endian) -> Option<Number> {
        let raw = RawBytes::from(bytes);
        let bits = match self.size {
            1 => u64::from(raw.u8(at)?),
            2 => u64::from(raw.u16(at, endian)?),
            4 => u64::from(raw.u32(at, endian)?),
            _ => raw.u64(at, endian)?,
        };
        Some(self.of(bits))
    }

    /// Returns `bits` truncated to this width, as a cast does.
    pub(crate) fn of(self, bits: u64) -> Number {
        let bits = match (self.size, self.signed) {
            (1, false) => u64::from(bits as u8),
            (1, true) => bits as i8 as u64,
            (2, false) => u64::from(bits as u16),
            (2, true) => bits as i16 as u64,
            (4, false) => u64::from(bits as u32),
            (4, true) => bits as i32 as u64,
            _ => bits,
        };
        Number {
            bits,
            unsigned: self.size == 8 && !self.signed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'p> {
    Number(Number),
    Bytes(Bytes<'p>),
    Text(Cow<'p, str>),
    /// Value missing in the recording.
    Unknown,
}

impl<'p> Value<'p> {
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Value::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the value as a string: text, or bytes up to a NUL.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Bytes(b) => {
                let end = b.bytes.iter().position(|b| *b == 0);
                Some(String::from_utf8_lossy(
                    &b.bytes[..end.unwrap_or(b.bytes.len())],
                ))
            }
            _ => None,
        }
    }

    pub(crate) fn bytes(&self) -> Option<Bytes<'p>> {
        match self {
            Value::Bytes(b) => Some(*b),
            _ => None,
        }
    }
}

impl From<Option<Number>> for Value<'_> {
    fn from(number: Option<Number>) -> Self {
        number.map_or(Value::Unknown, Value::Number)
    }
}
