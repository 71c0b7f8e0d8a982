//! Copies the valid entries of a perf map, in pieces.

use std::io::{self, Write};

use super::entry::Entry;
use crate::source::{MapFile, Refusal};

/// Bytes per read.
const PIECE: usize = 128 << 10;

/// Maximum length of a copied line, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Statistics of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedEntries {
    /// Bytes written.
    pub bytes: u64,
    /// Lines skipped, except an incomplete last one.
    pub bad_lines: u64,
}

/// Cause for not copying a perf map.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file cannot be read, or has become too long.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The copy could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Copies the valid entries of an untrusted file, which may be no perf map at all. Memory use is
/// one line and one piece.
///
/// # Errors
/// [`CopyError`]; `out` then holds the entries copied so far.
pub fn copy_entries(file: &MapFile, out: &mut impl Write) -> Result<CopiedEntries, CopyError> {
    // The file may keep growing.
    let len = file.len()?;
    copy(|into, at| file.read_at(into, at), len, out)
}

fn copy(
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Refusal>,
    len: u64,
    out: &mut impl Write,
) -> Result<CopiedEntries, CopyError> {
    let mut copied = CopiedEntries::default();
    let mut piece = vec![0; PIECE];
    let mut line = Vec::new();
    let mut is_too_long = false;
    let mut at = 0;
    while at < len {
        let most = usize::try_from(len - at).map_or(PIECE, |left| left.min(PIECE));
        let count = read(&mut piece[..most], at)?;
        if count == 0 {
            break;
        }
        at += count as u64;
        let mut rest = &piece[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, behind) = rest.split_at(end + 1);
            rest = behind;
            let whole = match line.is_empty() {
                true => head,
                false => {
                    line.extend_from_slice(head);
                    &line
                }
            };
            match is_entry(whole) && !is_too_long {
                true => {
                    out.write_all(whole)?;
                    copied.bytes += whole.len() as u64;
                }
                false => {
                    let is_empty = whole.trim_ascii_end().is_empty() && !is_too_long;
                    copied.bad_lines += u64::from(!is_empty);
                }
            }
            line.clear();
            is_too_long = false;
        }
        match line.len() + rest.len() > LONGEST_LINE {
            true => is_too_long = true,
            false => line.extend_from_slice(rest),
        }
    }
    if is_entry(&line) && !is_too_long {
        out.write_all(&line)?;
        copied.bytes += line.len() as u64;
    }
    Ok(copied)
}

fn is_entry(line: &[u8]) -> bool {
    Entry::parse(line.trim_ascii_end(), 0).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::PerfMap;
    use super::*;

    fn copied(text: &[u8], most: usize) -> (Vec<u8>, CopiedEntries) {
        let mut out = Vec::new();
        let read = |into: &mut [u8], at: u64| {
            let rest = &text[at as usize..];
            let count = rest.len().min(into.len()).min(most);
            into[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        let counts = copy(read, text.len() as u64, &mut out).unwrap();
        assert_eq!(counts.bytes, out.len() as u64);
        (out, counts)
    }

    #[test]
    fn a_copy_has_the_lines_that_are_entries_and_no_others() {
        let text =
            b"1000 10 one\nroot:$6$MADEUP:1:2\n\n zz 10 x\n2000 20 two\r\n3000 30\n4000 40 four";
        for most in [1, 2, 3, 7, 13, text.len()] {
            let (copy, counts) = copied(text, most);
            assert_eq!(copy, b"1000 10 one\n2000 20 two\r\n4000 40 four", "{most}");
            assert_eq!(counts.bad_lines, PerfMap::parse(text.to_vec()).bad_lines());
        }
        let (copy, counts) = copied(b"secret\nhalf a li", 5);
        assert_eq!((copy, counts.bad_lines), (Vec::new(), 1));
    }

    #[test]
    fn a_line_without_end_is_left_out_and_costs_no_memory() {
        let long = [b"1 1 ".to_vec(), vec![b'x'; 3 * LONGEST_LINE]].concat();
        let text = [&long[..], b"\n2000 20 two\n", &long[..]].concat();
        let (copy, counts) = copied(&text, PIECE);
        assert_eq!((copy, counts.bad_lines), (b"2000 20 two\n".to_vec(), 1));
    }
}
