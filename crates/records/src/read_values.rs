//! Counter values from read(2), samples, and READ records.

use crate::bytes::{Endian, RawBytes};
use crate::flags::ReadFormat;

/// Count of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadValue {
    /// The count.
    pub value: u64,
    /// Event id, with [`ReadFormat::ID`].
    pub id: Option<u64>,
    /// Samples lost, with [`ReadFormat::LOST`].
    pub lost: Option<u64>,
}

/// Counts of an event or of its group (`struct read_format`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadValues {
    /// Enabled time in nanoseconds, with [`ReadFormat::TOTAL_TIME_ENABLED`].
    pub time_enabled: Option<u64>,
    /// Running time in nanoseconds, with [`ReadFormat::TOTAL_TIME_RUNNING`].
    pub time_running: Option<u64>,
    /// Counter values: any number with [`ReadFormat::GROUP`], else one.
    pub values: Vec<ReadValue>,
}

fn words_per_value(format: ReadFormat) -> usize {
    1 + usize::from(format.contains(ReadFormat::ID))
        + usize::from(format.contains(ReadFormat::LOST))
}

fn time_words(format: ReadFormat) -> usize {
    usize::from(format.contains(ReadFormat::TOTAL_TIME_ENABLED))
        + usize::from(format.contains(ReadFormat::TOTAL_TIME_RUNNING))
}

/// Returns the length in bytes of the values at `at`; `None` if they exceed the body.
pub(crate) fn read_len(
    bytes: &RawBytes<'_>,
    at: usize,
    format: ReadFormat,
    endian: Endian,
) -> Option<usize> {
    let words = if format.contains(ReadFormat::GROUP) {
        let n = usize::try_from(bytes.u64(at, endian)?).ok()?;
        n.checked_mul(words_per_value(format))?
            .checked_add(1 + time_words(format))?
    } else {
        words_per_value(format) + time_words(format)
    };
    let len = words.checked_mul(8)?;
    (at.checked_add(len)? <= bytes.len()).then_some(len)
}

impl ReadValues {
    /// Decodes the values at `at`; `None` if they exceed the bytes.
    pub fn parse(
        bytes: &RawBytes<'_>,
        at: usize,
        format: ReadFormat,
        endian: Endian,
    ) -> Option<ReadValues> {
        read_len(bytes, at, format, endian)?;
        let mut next = at;
        let mut word = || {
            next += 8;
            bytes.u64(next - 8, endian)
        };
        let group = format.contains(ReadFormat::GROUP);
        // The group form starts with the count, and has the times before the values.
        let count = if group { word()? } else { 1 };
        let mut single = None;
        if !group {
            single = Some(word()?);
        }
        let mut out = ReadValues::default();
        if format.contains(ReadFormat::TOTAL_TIME_ENABLED) {
            out.time_enabled = Some(word()?);
        }
        if format.contains(ReadFormat::TOTAL_TIME_RUNNING) {
            out.time_running = Some(word()?);
        }
        for _ in 0..count {
            let value = match single {
                Some(value) => value,
                None => word()?,
            };
            let id = match format.contains(ReadFormat::ID) {
                true => Some(word()?),
                false => None,
            };
            let lost = match format.contains(ReadFormat::LOST) {
                true => Some(word()?),
                false => None,
            };
            out.values.push(ReadValue { value, id, lost });
        }
        Some(out)
    }

    pub(crate) fn encode(&self, format: ReadFormat, endian: Endian, out: &mut Vec<u8>) {
        let mut put = |v: u64| out.extend(endian.put_u64(v));
        let group = format.contains(ReadFormat::GROUP);
        let single = self.values.first().copied().unwrap_or_default();
        match group {
            true => put(self.values.len() as u64),
            false => put(single.value),
        }
        if format.contains(ReadFormat::TOTAL_TIME_ENABLED) {
            put(self.time_enabled.unwrap_or(0));
        }
        if format.contains(ReadFormat::TOTAL_TIME_RUNNING) {
            put(self.time_running.unwrap_or(0));
        }
        let values = if group {
            self.values.as_slice()
        } else {
            &[single]
        };
        for value in values {
            if group {
                put(value.value);
            }
            if format.contains(ReadFormat::ID) {
                put(value.id.unwrap_or(0));
            }
            if format.contains(ReadFormat::LOST) {
                put(value.lost.unwrap_or(0));
            }
        }
    }
}
