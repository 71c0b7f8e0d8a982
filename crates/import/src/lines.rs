//! [`Lines`]: reads a text of any length line by line.

use rprof_profile::unit::counted_were;
use std::borrow::Cow;
use std::io::{self, BufRead};

const LONGEST_LINE: usize = 1 << 20;

/// Line reader that holds one line in memory.
pub(crate) struct Lines<'i> {
    input: &'i mut dyn BufRead,
    bytes: Vec<u8>,
    number: u64,
}

/// Line number, and the text or the reason why it is unreadable.
pub(crate) type NumberedLine<'l> = (u64, Result<Cow<'l, str>, &'static str>);

impl<'i> Lines<'i> {
    pub(crate) fn new(input: &'i mut dyn BufRead) -> Lines<'i> {
        Lines {
            input,
            bytes: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line without its end, with its number from 1, or the reason why it is
    /// unreadable. `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<NumberedLine<'_>>> {
        self.bytes.clear();
        let (mut any, mut is_whole) = (false, true);
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            is_whole &= self.bytes.len() + part.len() <= LONGEST_LINE;
            if is_whole {
                self.bytes.extend_from_slice(part);
            }
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        let line = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        let line = match is_whole {
            true => Ok(String::from_utf8_lossy(line)),
            false => Err("is longer than 1 MiB"),
        };
        Ok(Some((self.number, line)))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    count: u64,
    /// Number and reason of the first one.
    first: Option<(u64, &'static str)>,
}

impl Refused {
    pub(crate) fn add(&mut self, line: u64, why: &'static str) {
        self.count += 1;
        self.first.get_or_insert((line, why));
    }

    /// Describes the first one.
    pub(crate) fn first(&self) -> Option<String> {
        self.first.map(|(line, why)| format!("line {line} {why}"))
    }

    /// Returns a warning, if there are any.
    pub(crate) fn told(&self) -> Option<String> {
        let first = self.first()?;
        let lines = counted_were(self.count, "line");
        Some(match self.count {
            1 => format!("{lines} skipped: {first}"),
            _ => format!("{lines} skipped, the first: {first}"),
        })
    }
}
