//! [`CopiedText`]: text of a file that a program has copied into memory without a file.
//!
//! V8 maps its builtins a second time, near its JIT code. It copies them where mapping fails: in a
//! sandbox, after its file was deleted, or with its text on huge pages. Huge pages themselves have
//! a rule in `rprof_processes`; this copy lies elsewhere, so only its bytes identify it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rprof_image::{FileReader, Patience, PatientCalls, Rate, RegularFile, Segments};
use rprof_processes::{Image, LiveMapping, Pid};

use super::memory_file::MemoryFile;
use super::process_memory::PAGE;
use crate::mapped_files::MappedImage;

/// Maximum number of failed searches per process, and per mapping. JIT code whose function is
/// unknown fails as well.
const MAX_FAILED: usize = 12;
const MAX_FAILED_IN_MAPPING: usize = 3;

/// Minimum bytes of a mapping with a copy. V8's builtins have 1.5 MiB.
const MIN_MAPPING: u64 = 256 << 10;

/// Maximum bytes of a copy.
const MAX_COPY: u64 = 64 << 20;

/// Bytes of the file per read.
const PIECE: usize = 1 << 20;

/// Limits on waiting for a search, because all samples wait meanwhile. The text of Node.js takes 10
/// to 20 ms.
const PATIENCE: Patience = Patience {
    of_one: Duration::from_millis(100),
    free: Duration::from_millis(1),
    of_user: Rate {
        most: 400_000_000,
        a_second: 20_000_000,
    },
    of_all: Rate {
        most: 2_000_000_000,
        a_second: 100_000_000,
    },
};

/// Copied text, and its place in the original.
#[derive(Debug)]
pub(crate) struct CopiedText {
    pub(crate) pid: Pid,
    /// Addresses (AVMA) of the copy.
    pub(crate) range: Range<u64>,
    /// Offset of the original in the file.
    pub(crate) file_offset: u64,
    /// The file.
    pub(crate) image: Image,
}

#[derive(Debug)]
pub(super) struct CopiedTexts {
    calls: PatientCalls,
    found: Vec<CopiedText>,
}

/// Failed searches of a process, by start of the mapping.
#[derive(Debug, Default)]
pub(super) struct FailedSearches(Vec<u64>);

impl FailedSearches {
    fn is_over(&self, mapping: u64) -> bool {
        let of_mapping = self.0.iter().filter(|start| **start == mapping).count();
        self.0.len() >= MAX_FAILED || of_mapping >= MAX_FAILED_IN_MAPPING
    }
}

impl Default for CopiedTexts {
    fn default() -> CopiedTexts {
        CopiedTexts {
            calls: PatientCalls::new("rprof-copies", PATIENCE),
            found: Vec::new(),
        }
    }
}

impl CopiedTexts {
    /// Returns a copy whose mapping must be written before the next sample of its process.
    pub(super) fn take(&mut self) -> Option<CopiedText> {
        self.found.pop()
    }

    /// Searches a file for the code around an address in memory without a file.
    pub(super) fn search(
        &mut self,
        avma: u64,
        mapping: &LiveMapping,
        original: MappedImage,
        memory: &Arc<MemoryFile>,
        failed: &mut FailedSearches,
    ) {
        let (pid, within) = (original.pid, mapping.start..mapping.end);
        let is_small = within.end.saturating_sub(within.start) < MIN_MAPPING;
        let is_known =
            (self.found.iter()).any(|copy| copy.pid == pid && copy.range.contains(&avma));
        if is_small || is_known || failed.is_over(mapping.start) {
            return;
        }
        let (image, memory) = (original.image.clone(), Arc::clone(memory));
        let search = move || {
            let file = original.file().open().ok()?;
            find_copy(&memory, &file, avma, &within)
        };
        let user = PatientCalls::user_of(pid.0.cast_unsigned());
        match self.calls.call(user, search).flatten() {
            Some((range, file_offset)) => self.found.push(CopiedText {
                pid,
                range,
                file_offset,
                image,
            }),
            None => failed.0.push(mapping.start),
        }
    }
}

/// Finds the only place in a file's code with the bytes of the page around an address, and extends
/// it as far as memory and file agree. Returns the addresses and the file offset of the first.
fn find_copy(
    memory: &MemoryFile,
    file: &RegularFile,
    avma: u64,
    within: &Range<u64>,
) -> Option<(Range<u64>, u64)> {
    let size = PAGE as u64;
    let page = avma - avma % size;
    let mut sampled = [0; PAGE];
    if memory.read(&mut sampled, page) != PAGE {
        return None;
    }
    let segments = Segments::parse(&FileReader::new(file))?;
    let mut places = segments.code().flat_map(|segment| {
        let start = segment.offset - segment.offset % size;
        let end = segment.offset.saturating_add(segment.file_size);
        pages_equal_to(file, &sampled, start..end).map(move |offset| (offset, start))
    });
    let place = places.next()?;
    // Two equal pages tell nothing.
    if places.next().is_some() {
        return None;
    }
    drop(places);
    let (offset, text_start) = place;
    let mut original = [0; PAGE];
    let mut equal_bytes = |avma: u64, offset: u64| {
        let copied = memory.read(&mut sampled, avma);
        let read = file.read_at(&mut original, offset).unwrap_or(0);
        let pairs = sampled.iter().zip(&original).take(copied.min(read));
        pairs
            .take_while(|(copy, original)| copy == original)
            .count() as u64
    };
    let (mut start, mut file_offset) = (page, offset);
    while start.saturating_sub(within.start) >= size
        && file_offset.saturating_sub(text_start) >= size
        && page - start < MAX_COPY
        && equal_bytes(start - size, file_offset - size) == size
    {
        (start, file_offset) = (start - size, file_offset - size);
    }
    let mut end = page + size;
    while within.end.saturating_sub(end) >= size && end - page < MAX_COPY {
        let equal = equal_bytes(end, file_offset + (end - start));
        end += equal;
        if equal < size {
            break;
        }
    }
    Some((start..end, file_offset))
}

/// Returns the offsets of the pages in a range of a file with these bytes.
fn pages_equal_to(
    file: &RegularFile,
    page: &[u8; PAGE],
    range: Range<u64>,
) -> impl Iterator<Item = u64> {
    let (mut piece, end) = (vec![0; PIECE], range.end);
    range.step_by(PIECE).flat_map(move |start| {
        let left = usize::try_from(end - start).unwrap_or(PIECE).min(PIECE);
        let wanted = piece.get_mut(..left).unwrap_or_default();
        let read = file.read_at(wanted, start).unwrap_or(0);
        let (pages, _) = piece.get(..read).unwrap_or_default().as_chunks::<PAGE>();
        let equal = (0u64..).zip(pages).filter(|(_, other)| *other == page);
        let offsets = equal.map(|(index, _)| start.saturating_add(index * PAGE as u64));
        offsets.collect::<Vec<u64>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Pages that all differ.
    fn text(pages: u8) -> Vec<u8> {
        (0..pages).flat_map(|page| [page; PAGE]).collect()
    }

    /// An ELF file with one executable segment from its second page on.
    fn program(text: &[u8]) -> tempfile::NamedTempFile {
        let mut header = vec![0; PAGE];
        header[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &[3, 0, 62, 0, 1, 0, 0, 0]);
        put(32, &64u64.to_le_bytes());
        put(52, &[64, 0, 56, 0, 1, 0]);
        put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
        for (at, word) in [PAGE, PAGE, PAGE, text.len(), text.len(), PAGE]
            .iter()
            .enumerate()
        {
            put(72 + 8 * at, &(*word as u64).to_le_bytes());
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&header).unwrap();
        file.write_all(text).unwrap();
        file
    }

    /// Searches for the page `at` of memory that holds `copied`.
    fn find(
        program: &tempfile::NamedTempFile,
        copied: &[u8],
        at: usize,
    ) -> Option<(Range<u64>, u64)> {
        let memory = MemoryFile::open(Pid(std::process::id().cast_signed())).unwrap();
        // Whole pages inside the buffer.
        let mut buffer = vec![0u8; copied.len() + 2 * PAGE];
        let start = (buffer.as_ptr().addr()).next_multiple_of(PAGE);
        let skipped = start - buffer.as_ptr().addr();
        buffer[skipped..skipped + copied.len()].copy_from_slice(copied);
        let within = start as u64..(start + copied.len()) as u64;
        let file = RegularFile::open(program.path()).unwrap();
        let avma = (start + at * PAGE + 0x123) as u64;
        let (range, offset) = find_copy(&memory, &file, avma, &within)?;
        Some((range.start - start as u64..range.end - start as u64, offset))
    }

    #[test]
    fn copy_extends_as_far_as_its_bytes_equal_the_original() {
        let text = text(9);
        let program = program(&text);
        // Three pages of other code, pages 2 to 5 of the text, and 100 bytes of page 6.
        let mut copied = vec![0xaa; 3 * PAGE];
        copied.extend_from_slice(&text[2 * PAGE..6 * PAGE + 100]);
        copied.resize(8 * PAGE, 0xbb);
        let page = PAGE as u64;
        let expected = Some((3 * page..7 * page + 100, 3 * page));
        for at in 3..7 {
            assert_eq!(find(&program, &copied, at), expected, "{at}");
        }
        assert_eq!(find(&program, &copied, 1), None);
        assert_eq!(find(&program, &copied, 7), None);
    }

    #[test]
    fn pages_that_the_text_has_twice_identify_nothing() {
        let mut text = text(4);
        text.extend_from_slice(&[1; PAGE]);
        let program = program(&text);
        assert_eq!(find(&program, &text, 1), None);
        assert!(find(&program, &text, 2).is_some());
    }

    #[test]
    fn searches_that_fail_end() {
        let mut failed = FailedSearches::default();
        for mapping in 0..100 {
            for _ in 0..100 {
                if !failed.is_over(mapping) {
                    failed.0.push(mapping);
                }
            }
        }
        assert_eq!(failed.0, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    }
}
