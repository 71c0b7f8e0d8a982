//! Images mapped from within a zip file, as Android maps the libraries of an APK. A stored entry is
//! the ELF file byte for byte.
//!
//! Reads only the central directory (PKWARE's APPNOTE.TXT, 4.3.12). Archives of 4 GiB and more
//! (Zip64) are not supported.

use crate::elf::ElfSymbols;
use crate::elf_image::ElfImage;
use crate::pages::Pages;
use rprof_image::ImageFile;
use rprof_image::Reason;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Magic number of a local header, which starts every non-empty zip file.
const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";

/// Record lengths in bytes, without names and comments.
const LOCAL_LEN: usize = 30;
const CENTRAL_LEN: usize = 46;
const END_LEN: usize = 22;

#[derive(Debug, Clone)]
pub(crate) struct Part {
    file: Arc<ImageFile>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.file
            .bytes()
            .get(self.range.clone())
            .unwrap_or_default()
    }
}

impl Pages for Part {
    fn release(&self, range: Range<usize>) {
        let start = self.range.start.saturating_add(range.start);
        let end = self.range.start.saturating_add(range.end);
        self.file.release(start..end.min(self.range.end));
    }

    fn is_ours(&self) -> bool {
        self.file.is_ours()
    }
}

#[derive(Debug)]
pub(crate) struct Archive {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    image: OnceLock<Result<ElfImage<Part>, Reason>>,
    path: PathBuf,
}

impl Archive {
    /// Returns `None` if the file is no archive or contains no stored ELF file.
    pub(crate) fn open(file: ImageFile, path: &Path) -> Option<Archive> {
        if !file.bytes().starts_with(LOCAL) {
            return None;
        }
        let parts = stored(file.bytes()).unwrap_or_default();
        let file = Arc::new(file);
        let entry = |range| Entry {
            part: Part {
                file: Arc::clone(&file),
                range,
            },
            image: OnceLock::new(),
            path: path.to_owned(),
        };
        let entries: Vec<Entry> = parts.into_iter().map(entry).collect();
        (!entries.is_empty()).then_some(Archive { entries })
    }

    /// Returns the index of the image at an offset of the archive, and the offset in the image.
    pub(crate) fn image_at(&self, offset: u64) -> Option<(usize, u64)> {
        let offset = usize::try_from(offset).ok()?;
        let holds = |entry: &Entry| entry.part.range.contains(&offset);
        let number = self.entries.iter().position(holds)?;
        Some((
            number,
            (offset - self.entries[number].part.range.start) as u64,
        ))
    }

    pub(crate) fn image(&self, number: usize) -> Result<&ElfImage<Part>, Reason> {
        let entry = self.entries.get(number).ok_or(Reason::OutsideImage)?;
        let open = || {
            let symbols = ElfSymbols::parse(entry.part.clone()).map_err(|_| Reason::DamagedElf)?;
            Ok(ElfImage::new(symbols, Some(entry.path.clone())))
        };
        entry.image.get_or_init(open).as_ref().map_err(|why| *why)
    }
}

/// Returns the byte ranges of stored ELF files. `None` if the central directory is damaged.
fn stored(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    // The end record is last, except for a comment of at most 64 KiB.
    let last = bytes.len().checked_sub(END_LEN)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let end = (first..=last)
        .rev()
        .find(|at| bytes[*at..].starts_with(END))?;
    let mut at = word(end + 16)?;
    let mut found = Vec::new();
    // The entry count of the end record is not trusted.
    while bytes
        .get(at..)
        .is_some_and(|rest| rest.starts_with(CENTRAL))
    {
        let (method, size, whole) = (half(at + 10)?, word(at + 20)?, word(at + 24)?);
        let local = word(at + 42)?;
        at += CENTRAL_LEN + half(at + 28)? + half(at + 30)? + half(at + 32)?;
        if method != 0 || size != whole || !bytes.get(local..)?.starts_with(LOCAL) {
            continue;
        }
        let start = local + LOCAL_LEN + half(local + 26)? + half(local + 28)?;
        let range = start..start + size;
        if bytes
            .get(range.clone())
            .is_some_and(|part| part.starts_with(b"\x7fELF"))
        {
            found.push(range);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImageKey, Symbolizer};
    use std::io::Write;

    /// Builds a zip file with a stored entry and an entry marked as compressed.
    fn zip(contents: &[u8]) -> (Vec<u8>, u64) {
        let mut out = Vec::new();
        let mut central = Vec::new();
        let mut starts = Vec::new();
        for (method, name) in [(0u16, b"a.so"), (8, b"b.so")] {
            let local = out.len() as u32;
            let size = (contents.len() as u32).to_le_bytes();
            let fixed = [
                &[20, 0, 0, 0][..],
                &method.to_le_bytes(),
                &[0; 8],
                &size,
                &size,
            ];
            let fixed = [&fixed.concat()[..], &[4, 0, 0, 0]].concat();
            out.extend([LOCAL, &fixed, name].concat());
            starts.push(out.len() as u64);
            out.extend(contents);
            central.extend(
                [
                    CENTRAL,
                    &[20, 0],
                    &fixed,
                    &[0; 10],
                    &local.to_le_bytes(),
                    name,
                ]
                .concat(),
            );
        }
        let at = out.len() as u32;
        out.extend(&central);
        let size = (central.len() as u32).to_le_bytes();
        out.extend(
            [
                END,
                &[0, 0, 0, 0, 2, 0, 2, 0],
                &size,
                &at.to_le_bytes(),
                &[0, 0],
            ]
            .concat(),
        );
        (out, starts[0])
    }

    #[test]
    fn an_entry_has_the_names_of_the_file() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let (bytes, start) = zip(&program);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let symbolizer = Symbolizer::builder().inlines(false).lines(false).build();
        let offsets: Vec<u64> = (0..2000)
            .map(|i| i * (program.len() as u64 / 2000))
            .collect();
        let inside: Vec<u64> = offsets.iter().map(|offset| offset + start).collect();
        let direct = symbolizer.resolve_image(&ImageKey::file("/proc/self/exe"), &offsets);
        let key = ImageKey::file(file.path());
        assert_eq!(symbolizer.resolve_image(&key, &inside), direct);
        assert!(direct.iter().filter(|found| found.is_ok()).count() > 20);
        let behind = start + program.len() as u64;
        let outside = symbolizer.resolve_image(&key, &[0, behind + 40]);
        assert!(
            outside
                .iter()
                .all(|found| *found == Err(Reason::OutsideImage))
        );
    }

    #[test]
    fn cut_and_damaged_archives_are_refused() {
        let (bytes, _) = zip(b"\x7fELF and no more");
        assert_eq!(stored(&bytes).unwrap().len(), 1);
        for len in 0..bytes.len() {
            stored(&bytes[..len]);
            let mut damaged = bytes.clone();
            damaged[len] ^= 0xff;
            stored(&damaged);
        }
    }
}
