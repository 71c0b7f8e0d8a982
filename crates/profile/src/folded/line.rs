//! One line of folded stacks.

use std::io::{self, BufRead};

/// Maximum length of a line in bytes. Longer lines are skipped.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// Maximum number of decimal places. Further digits are dropped.
pub(super) const MAX_DIGITS: u32 = 6;

/// Stack of samples without frames.
const NO_FRAMES: &str = "[unknown]";

/// Reason why a line is not a folded stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineDamage {
    /// No number follows the last space. Signs and exponents are none.
    #[error("does not end in a count")]
    NoCount,
    /// The line is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// The line exceeds the length limit.
    #[error("is longer than {} MiB", LONGEST_LINE >> 20)]
    TooLong,
    /// The sum of all counts overflows 64 bits.
    #[error("has a count that overflows the 64-bit sum")]
    TooMany,
}

#[derive(Debug, PartialEq)]
pub(super) struct FoldedLine<'t> {
    pub(super) stack: &'t str,
    pub(super) count: Count,
    /// True if the line has two counts, as in differential stacks. The first one is ignored.
    pub(super) has_two: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    pub(super) whole: u64,
    /// Millionths.
    pub(super) fraction: u64,
    pub(super) digits: u32,
    pub(super) is_cut: bool,
}

impl Count {
    pub(super) fn parse(text: &str) -> Option<Count> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let kept = &fraction[..fraction.len().min(MAX_DIGITS as usize)];
        let kept = kept.trim_end_matches('0');
        Some(Count {
            whole: whole.parse().ok()?,
            fraction: format!("{kept:0<6}").parse().ok()?,
            digits: kept.len() as u32,
            is_cut: fraction.len() > MAX_DIGITS as usize,
        })
    }

    /// Returns the number in units of `10^-digits`; `None` on overflow.
    pub(super) fn in_units(self, digits: u32) -> Option<u64> {
        let fraction = self.fraction / 10u64.pow(MAX_DIGITS - digits);
        (self.whole.checked_mul(10u64.pow(digits))?).checked_add(fraction)
    }
}

impl<'t> FoldedLine<'t> {
    /// Parses a line like flamegraph.pl and inferno; `None` for blank lines and comments.
    pub(super) fn parse(line: &'t [u8]) -> Option<Result<FoldedLine<'t>, LineDamage>> {
        let Ok(line) = std::str::from_utf8(line) else {
            return Some(Err(LineDamage::NotUtf8));
        };
        // py-spy writes samples without frames so.
        let is_bare = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line == "#" || line.starts_with("# ") {
            return None;
        }
        if let Some(count) = Count::parse(line).filter(|_| is_bare) {
            return Some(Ok(FoldedLine {
                stack: NO_FRAMES,
                count,
                has_two: false,
            }));
        }
        let Some((stack, count)) = split_count(line) else {
            let last = line.rsplit([' ', '\t']).next().unwrap_or_default();
            let is_number = last.len() < line.len() && last.bytes().all(|b| b.is_ascii_digit());
            return Some(Err(match is_number {
                true => LineDamage::TooMany,
                false => LineDamage::NoCount,
            }));
        };
        let first = split_count(stack);
        Some(Ok(FoldedLine {
            stack: first.map_or(stack, |(stack, _)| stack),
            count,
            has_two: first.is_some(),
        }))
    }
}

pub(super) fn split_count(line: &str) -> Option<(&str, Count)> {
    let at = memchr::memrchr2(b' ', b'\t', line.as_bytes())?;
    Some((line[..at].trim_end(), Count::parse(&line[at + 1..])?))
}

/// Reads a line without its end. Returns `false` if it is too long, and `None` at the end of the
/// input.
pub(super) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let (mut any, mut is_whole) = (false, true);
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            return Ok(any.then_some(is_whole));
        }
        any = true;
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        is_whole &= line.len() + part.len() <= LONGEST_LINE;
        if is_whole {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(is_whole));
        }
    }
}
