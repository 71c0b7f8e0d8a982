//! One line of a perf map.

use std::ops::Range;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Position in the names buffer.
    pub(super) name: u32,
    pub(super) name_len: u32,
}

impl Entry {
    /// Parses a line at offset `begins`. Returns the entry and the place of its name.
    pub(super) fn parse(line: &[u8], begins: usize) -> Option<(Self, Range<usize>)> {
        let first = line.iter().position(|byte| *byte == b' ')?;
        let rest = &line[first + 1..];
        let second = first + 1 + rest.iter().position(|byte| *byte == b' ')?;
        let (start, size) = (hex(&line[..first])?, hex(&line[first + 1..second])?);
        let name = second + 1;
        if line[name..].iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        // Truncate at the end of the address space.
        let size = size.min((u64::MAX - start).saturating_add(1));
        let entry = Self {
            start,
            size,
            name: 0,
            name_len: 0,
        };
        Some((entry, begins + name..begins + line.len()))
    }

    /// Inclusive, as an exclusive end could overflow.
    pub(super) fn last(&self) -> u64 {
        self.start.saturating_add(self.size - 1)
    }
}

/// Parses at most 64 bits, with or without `0x` (some runtimes write it).
fn hex(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        (number >> 60 == 0).then_some(number << 4 | u64::from(digit))
    })
}
