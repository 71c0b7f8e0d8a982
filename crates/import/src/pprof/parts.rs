//! [`Parts`]: pieces of the message, read where they lie.

use std::borrow::Cow;

use crate::wire::{Fields, Value};

/// Most samples, locations, functions and strings together: an empty one is two bytes, and takes 16.
const MOST_PIECES: usize = 1 << 26;

/// Pieces of the message, by kind.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) sample_types: Vec<&'a [u8]>,
    pub(super) samples: Vec<&'a [u8]>,
    pub(super) mappings: Vec<&'a [u8]>,
    pub(super) locations: Vec<&'a [u8]>,
    pub(super) functions: Vec<&'a [u8]>,
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) default_type: u64,
    /// Nanoseconds since 1970; 0 where that is unknown.
    pub(super) time: u64,
    /// Nanoseconds.
    pub(super) duration: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Parts<'a>, String> {
        let mut parts = Parts::default();
        let mut pieces = 0usize;
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
            list.push(value.bytes());
            pieces += 1;
            if pieces > MOST_PIECES {
                return Err(format!(
                    "it has more than {MOST_PIECES} pieces; export less of it"
                ));
            }
        }
        Ok(parts)
    }

    /// Returns a string by its number.
    pub(super) fn string(&self, number: u64) -> Result<Cow<'a, str>, String> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let bytes = self.strings.get(index);
        let bytes = bytes.ok_or_else(|| format!("there is no string {number}"))?;
        Ok(String::from_utf8_lossy(bytes))
    }
}

/// Numbers of a message by tag; the last one of each counts.
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
