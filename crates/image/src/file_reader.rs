//! [`FileReader`]: reads parts of a file for a parser.
//!
//! Reading a mapping of a truncated file kills the process (`SIGBUS`). `pread` copies, so a
//! changing file can only spoil its own contents.

use crate::regular_file::RegularFile;
use object::read::{ReadCache, ReadCacheOps, ReadRef};
use std::cell::Cell;
use std::ops::Range;

/// Maximum length of one part, in bytes. The largest call frame information seen has a third.
const MAX_PART: u64 = 64 << 20;

/// Maximum number of bytes per file.
const MAX_BYTES: u64 = 192 << 20;

/// Maximum number of parts per file. Real files need a few hundred.
const MAX_PARTS: u32 = 1 << 17;

/// Reads parts of a file, for parsers of the `object` crate. Parts live as long as the reader.
///
/// Refuses parts longer than 64 MiB, and all parts after 192 MiB in total, as if the file ended
/// there.
#[derive(Debug)]
pub struct FileReader<'file> {
    parts: ReadCache<Source<'file>>,
    bytes_left: Cell<u64>,
    parts_left: Cell<u32>,
}

impl<'file> FileReader<'file> {
    /// Creates a reader without reading.
    #[must_use]
    pub fn new(file: &'file RegularFile) -> Self {
        Self {
            parts: ReadCache::new(Source { file, at: 0 }),
            bytes_left: Cell::new(MAX_BYTES),
            parts_left: Cell::new(MAX_PARTS),
        }
    }

    /// Returns up to `len` bytes at an offset.
    #[must_use]
    pub fn bytes(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let left = self.parts.len().ok()?.checked_sub(offset)?;
        self.read_bytes_at(offset, len.min(left).min(MAX_PART)).ok()
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let left = self.bytes_left.get().checked_sub(bytes).ok_or(())?;
        let parts = self.parts_left.get().checked_sub(1).ok_or(())?;
        self.bytes_left.set(left);
        self.parts_left.set(parts);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a FileReader<'_> {
    fn len(self) -> Result<u64, ()> {
        self.parts.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > MAX_PART {
            return Err(());
        }
        self.take(size)?;
        self.parts.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // Names are short.
        self.take(256)?;
        self.parts.read_bytes_at_until(range, delimiter)
    }
}

#[derive(Debug)]
struct Source<'file> {
    file: &'file RegularFile,
    at: u64,
}

impl ReadCacheOps for Source<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.file.current_len().map_err(|_| ())
    }

    fn seek(&mut self, at: u64) -> Result<u64, ()> {
        self.at = at;
        Ok(at)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, ()> {
        let have = self.file.read_at(into, self.at).map_err(|_| ())?;
        self.at += have as u64;
        Ok(have)
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), ()> {
        match self.read(into)? == into.len() {
            true => Ok(()),
            false => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segments, build_id_of};
    use std::path::Path;

    fn opened(path: &Path) -> RegularFile {
        RegularFile::open(path).unwrap()
    }

    #[test]
    fn a_program_is_read_as_its_bytes_are() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = opened(&path);
        let reader = FileReader::new(&file);
        assert_eq!(build_id_of(&reader), build_id_of(&bytes[..]));
        let (here, there) = (Segments::parse(&reader), Segments::parse(&bytes[..]));
        let offsets = (0..bytes.len() as u64).step_by(4096);
        for offset in offsets {
            let of = |segments: &Option<Segments>| segments.as_ref().unwrap().svma(offset);
            assert_eq!(of(&here), of(&there));
        }
        let end = bytes.len() as u64 - 3;
        assert_eq!(reader.bytes(end, 100), bytes.get(bytes.len() - 3..));
        assert_eq!(reader.bytes(end + 4, 100), None);
    }

    #[test]
    fn a_file_that_is_cut_short_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10_000).unwrap();
        let opened = opened(file.path());
        let reader = FileReader::new(&opened);
        assert!((&reader).read_bytes_at(0, 5000).is_ok());
        file.as_file().set_len(6000).unwrap();
        assert!((&reader).read_bytes_at(4000, 4000).is_err());
        assert!(
            (&reader).read_bytes_at(0, 5000).is_ok(),
            "it was read already"
        );
    }

    #[test]
    fn neither_one_part_nor_all_of_them_are_longer_than_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 30).unwrap();
        let opened = opened(file.path());
        let reader = FileReader::new(&opened);
        assert!((&reader).read_bytes_at(0, MAX_PART + 1).is_err());
        assert_eq!(reader.bytes_left.get(), MAX_BYTES);
        assert_eq!(
            reader.bytes(0, 8 << 30).map(<[u8]>::len),
            Some(MAX_PART as usize)
        );
        let parts = (1..10).take_while(|n| (&reader).read_bytes_at(*n, MAX_PART).is_ok());
        assert_eq!(parts.count() as u64, MAX_BYTES / MAX_PART - 1);
    }
}
