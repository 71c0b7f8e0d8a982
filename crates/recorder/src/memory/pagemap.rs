//! `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst): one word for each page.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bit of a page in memory.
const PRESENT: u64 = 1 << 63;

/// Bit of a page of a file, or of shared memory.
const FILE: u64 = 1 << 61;

/// Bit of a page that only this process maps.
const EXCLUSIVE: u64 = 1 << 56;

/// Words per read: 64 MiB of addresses.
const WORDS: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Pagemap {
    file: File,
    buffer: Vec<u8>,
}

impl Pagemap {
    /// Reads pages from an open file.
    pub(super) fn new(file: File, buffer: Vec<u8>) -> Pagemap {
        Pagemap { file, buffer }
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Returns the present pages of a range of page numbers.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the process has ended.
    pub(super) fn present(&mut self, pages: Range<u64>) -> io::Result<PresentPages> {
        let mut found = PresentPages::default();
        let mut at = pages.start;
        while at < pages.end {
            let count = (pages.end - at).min(WORDS as u64);
            self.buffer.resize(count as usize * 8, 0);
            let offset = at.checked_mul(8).ok_or(io::ErrorKind::InvalidInput)?;
            self.file.read_exact_at(&mut self.buffer, offset)?;
            let (words, _) = self.buffer.as_chunks::<8>();
            for (page, word) in (at..).zip(words) {
                found.add(page, u64::from_ne_bytes(*word));
            }
            at += count;
        }
        Ok(found)
    }
}

/// Present pages of a mapping.
///
/// A page that was only read may be the kernel's page of zeros. It is in pagemap, but not in smaps:
/// it takes no memory. It looks like a page that a forked process shares. So as many of these are
/// no [resident](Self::resident) pages as smaps does not count.
#[derive(Debug, Default)]
pub(super) struct PresentPages {
    present: Vec<Range<u64>>,
    count: u64,
    /// Pages that may be the page of zeros.
    maybe_zero: Vec<u64>,
}

impl PresentPages {
    fn add(&mut self, page: u64, word: u64) {
        if word & PRESENT == 0 {
            return;
        }
        self.count += 1;
        if word & (FILE | EXCLUSIVE) == 0 {
            self.maybe_zero.push(page);
        }
        push(&mut self.present, page);
    }

    /// Returns true if some pages must be pages of zeros. `resident` is the number of pages by smaps.
    pub(super) fn has_zeros(&self, resident: u64) -> bool {
        self.count > resident && !self.maybe_zero.is_empty()
    }

    /// Returns the resident pages, as ranges of page numbers. `resident` is their number by smaps.
    pub(super) fn resident(self, resident: u64) -> Vec<Range<u64>> {
        let excess = self.count.saturating_sub(resident) as usize;
        let zeros = &self.maybe_zero[..excess.min(self.maybe_zero.len())];
        if zeros.is_empty() {
            return self.present;
        }
        let mut zeros = zeros.iter().copied().peekable();
        let mut kept = Vec::with_capacity(self.present.len());
        for page in self.present.into_iter().flatten() {
            if zeros.next_if_eq(&page).is_none() {
                push(&mut kept, page);
            }
        }
        kept
    }
}

fn push(ranges: &mut Vec<Range<u64>>, page: u64) {
    match ranges.last_mut() {
        Some(last) if last.end == page => last.end = page + 1,
        _ => ranges.push(page..page + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_are_left_out_as_smaps_does_not_count_them() {
        let words = [
            0,
            PRESENT | EXCLUSIVE,
            PRESENT,
            PRESENT | FILE,
            PRESENT,
            FILE,
            PRESENT,
        ];
        let present = |resident| {
            let mut found = PresentPages::default();
            for (page, word) in (10..).zip(words) {
                found.add(page, word);
            }
            found.resident(resident)
        };
        assert_eq!(present(5), [11..15, 16..17]);
        assert_eq!(present(9), [11..15, 16..17]);
        assert_eq!(present(2), [11..12, 13..14]);
        assert_eq!(present(4), [11..12, 13..15, 16..17]);
    }
}
