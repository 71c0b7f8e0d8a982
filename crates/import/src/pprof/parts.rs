//! [`Parts`]: fields of the message, borrowed from the input.

use std::borrow::Cow;

use crate::collector::Collector;
use crate::wire::{Fields, Value};

/// Size of a list entry in bytes, including the growth of the list.
const PIECE_BYTES: usize = 2 * size_of::<&[u8]>();

/// Fields of the message, by kind.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) sample_types: Vec<&'a [u8]>,
    pub(super) samples: Vec<&'a [u8]>,
    pub(super) mappings: Vec<&'a [u8]>,
    pub(super) locations: Vec<&'a [u8]>,
    pub(super) functions: Vec<&'a [u8]>,
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) default_type: u64,
    /// Nanoseconds since 1970, or 0 if unknown.
    pub(super) time: u64,
    /// Nanoseconds.
    pub(super) duration: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8], out: &mut Collector<'_>) -> Result<Parts<'a>, String> {
        let mut parts = Parts::default();
        for field in Fields::new(bytes) {
            let (tag, value) = field?;
            let list = match tag {
                1 => &mut parts.sample_types,
                2 => &mut parts.samples,
                3 => &mut parts.mappings,
                4 => &mut parts.locations,
                5 => &mut parts.functions,
                6 => &mut parts.strings,
                9 | 10 | 14 => {
                    let number = match tag {
                        9 => &mut parts.time,
                        10 => &mut parts.duration,
                        _ => &mut parts.default_type,
                    };
                    *number = value.number();
                    continue;
                }
                _ => continue,
            };
            // An empty field has two bytes.
            out.hold(PIECE_BYTES)?;
            list.push(value.bytes());
        }
        Ok(parts)
    }

    /// Returns the bytes of a string by its index.
    pub(super) fn bytes(&self, number: u64) -> Result<&'a [u8], String> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let bytes = self.strings.get(index).copied();
        bytes.ok_or_else(|| format!("there is no string {number}"))
    }

    /// Returns a string by its index. It may be long, so callers pay for repeated calls from the
    /// work budget.
    pub(super) fn string(&self, number: u64) -> Result<Cow<'a, str>, String> {
        self.bytes(number).map(String::from_utf8_lossy)
    }
}

/// Returns the numbers of a message by tag. The last one of each tag applies.
pub(super) fn numbers<const N: usize>(message: &[u8]) -> Result<[u64; N], String> {
    let mut found = [0; N];
    for field in Fields::new(message) {
        let (tag, value) = field?;
        if let (Some(number), Value::Number(value)) = (found.get_mut(tag as usize), value) {
            *number = value;
        }
    }
    Ok(found)
}
