//! Debug sections of one file, decompressed on first use.

use gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::ElfFile;
use object::{CompressedData, CompressionFormat, Endianness, Object, ObjectSection};
use rprof_image::{MemoryBudget, MemoryLease};
use rprof_parallel::map_chunks;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// DWARF reader: a slice of the file, in the file's byte order.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Sections for every lookup. `.debug_line_str` also contains directories and may contain names.
const BASIC: [SectionId; 8] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
];

/// Sections for some lookups. Location lists, macros and name indexes are not read.
const FURTHER: [SectionId; 5] = [
    SectionId::DebugAranges,
    SectionId::DebugLine,
    SectionId::DebugTypes,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
];

/// Further sections of a package: gimli extracts a unit's part from each.
const FURTHER_OF_PACKAGES: [SectionId; 4] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

#[derive(Debug)]
enum Part {
    Mapped(Range<usize>),
    Compressed(CompressedPart),
}

/// Compressed section, decompressed by the first thread that needs it.
#[derive(Debug)]
struct CompressedPart {
    place: Range<usize>,
    format: CompressionFormat,
    len: u64,
    memory: MemoryBudget,
    reserved: Mutex<Option<MemoryLease>>,
    /// `None` if damaged or beyond the budget.
    inflated: OnceLock<Option<(Vec<u8>, MemoryLease)>>,
}

impl CompressedPart {
    /// Returns the decompressed bytes. Empty if damaged or beyond the budget.
    fn bytes(&self, file: &[u8]) -> &[u8] {
        let inflated = self.inflated.get_or_init(|| self.inflate(file));
        inflated.as_ref().map_or(&[], |(bytes, _)| bytes)
    }

    fn inflate(&self, file: &[u8]) -> Option<(Vec<u8>, MemoryLease)> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = reserved.take().or_else(|| self.memory.take(self.len))?;
        let compressed = CompressedData {
            format: self.format,
            data: file.get(self.place.clone())?,
            uncompressed_size: self.len,
        };
        let bytes = compressed.decompress().ok()?.into_owned();
        Some((bytes, lease))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// `.debug_info`, or `.zdebug_info` in the old compressed form.
    Usual,
    /// `.debug_info.dwo`: split DWARF (DWARF 5, section 7.3.2).
    Split,
}

/// Debug sections of a file. The caller keeps the bytes and passes them to each method.
#[derive(Debug)]
pub(crate) struct Sections {
    parts: Vec<(SectionId, Part)>,
    endian: RunTimeEndian,
}

impl Sections {
    /// Finds the sections. `None` if `bytes` is no ELF file with debug information. Damaged
    /// sections count as absent.
    ///
    /// Compressed sections have `SHF_COMPRESSED` (zlib or zstd; System V ABI, "Section
    /// Compression") or a name `.zdebug_*` (binutils before 2.26). They are decompressed on use.
    /// Memory for the basic ones is reserved here, as the others are useless without them. Other
    /// sections beyond the budget count as absent.
    ///
    /// # Errors
    /// [`NoRoom`], if the basic sections exceed `memory`.
    pub(crate) fn find(
        bytes: &[u8],
        naming: Naming,
        memory: &MemoryBudget,
    ) -> Result<Option<Self>, NoRoom> {
        match bytes.get(4) {
            Some(1) => match ElfFile::<FileHeader32<Endianness>>::parse(bytes) {
                Ok(file) => Self::find_in(&file, naming, memory),
                Err(_) => Ok(None),
            },
            _ => match ElfFile::<FileHeader64<Endianness>>::parse(bytes) {
                Ok(file) => Self::find_in(&file, naming, memory),
                Err(_) => Ok(None),
            },
        }
    }

    fn find_in<'data>(
        file: &impl Object<'data>,
        naming: Naming,
        memory: &MemoryBudget,
    ) -> Result<Option<Self>, NoRoom> {
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut parts = Vec::new();
        let more = match naming {
            Naming::Usual => &[][..],
            Naming::Split => &FURTHER_OF_PACKAGES,
        };
        for &id in BASIC.iter().chain(&FURTHER).chain(more) {
            let name = match naming {
                Naming::Usual => Some(id.name()),
                Naming::Split => id.dwo_name(),
            };
            let section = name.and_then(|name| file.section_by_name(name));
            let part = section.and_then(|section| part(&section, memory));
            if let (true, Some(Part::Compressed(part))) = (BASIC.contains(&id), &part) {
                let lease = memory.take(part.len).ok_or(NoRoom)?;
                let mut reserved = part.reserved.lock().unwrap_or_else(PoisonError::into_inner);
                *reserved = Some(lease);
            }
            parts.extend(part.map(|part| (id, part)));
        }
        let found = Self { parts, endian };
        Ok(found.has_info().then_some(found))
    }

    fn has_info(&self) -> bool {
        self.stated_len(SectionId::DebugInfo) != 0
    }

    fn part(&self, id: SectionId) -> Option<&Part> {
        let found = self.parts.iter().find(|(part, _)| *part == id);
        found.map(|(_, part)| part)
    }

    fn stated_len(&self, id: SectionId) -> u64 {
        match self.part(id) {
            Some(Part::Mapped(range)) => range.len() as u64,
            Some(Part::Compressed(part)) => part.len,
            None => 0,
        }
    }

    /// Returns the bytes of a section, decompressed on first use. Empty if there is none.
    pub(crate) fn get<'a>(&'a self, bytes: &'a [u8], id: SectionId) -> Slice<'a> {
        let slice = match self.part(id) {
            Some(Part::Mapped(range)) => bytes.get(range.clone()).unwrap_or_default(),
            Some(Part::Compressed(part)) => part.bytes(bytes),
            None => &[],
        };
        EndianSlice::new(slice, self.endian)
    }

    /// Decompresses the sections of a lookup. Starts with the longest, which takes as long as all
    /// others.
    pub(crate) fn inflate(&self, bytes: &[u8], lines: bool, threads: usize) {
        let is_wanted = |id: SectionId| BASIC.contains(&id) || lines && id == SectionId::DebugLine;
        let mut waiting: Vec<&CompressedPart> = Vec::new();
        for (id, part) in &self.parts {
            if let Part::Compressed(part) = part
                && is_wanted(*id)
                && part.inflated.get().is_none()
            {
                waiting.push(part);
            }
        }
        waiting.sort_by_key(|part| Reverse(part.len));
        map_chunks(threads, &waiting, 1, |parts| {
            for part in parts {
                part.bytes(bytes);
            }
        });
    }

    pub(crate) fn len(&self) -> u64 {
        let len = |(id, _): &(SectionId, Part)| self.stated_len(*id);
        self.parts.iter().map(len).fold(0, u64::saturating_add)
    }

    /// Returns the file range of a part of a section; `None` if compressed.
    pub(crate) fn place(&self, id: SectionId, part: Range<usize>) -> Option<Range<usize>> {
        let Part::Mapped(whole) = self.part(id)? else {
            return None;
        };
        let at = |offset: usize| whole.start.saturating_add(offset).min(whole.end);
        Some(at(part.start)..at(part.end))
    }

    pub(crate) fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    pub(crate) fn dwarf<'a>(&'a self, bytes: &'a [u8], lines: bool) -> Dwarf<Slice<'a>> {
        let load = |id| {
            let is_read = BASIC.contains(&id) || lines && id == SectionId::DebugLine;
            Ok::<_, std::convert::Infallible>(match is_read {
                true => self.get(bytes, id),
                false => EndianSlice::new(&[], self.endian),
            })
        };
        let Ok(dwarf) = Dwarf::load(load);
        dwarf
    }
}

fn part<'data>(section: &impl ObjectSection<'data>, memory: &MemoryBudget) -> Option<Part> {
    let range = section.compressed_file_range().ok()?;
    let is_compressed = range.format != CompressionFormat::None;
    let len = match is_compressed {
        true => range.compressed_size,
        false => range.uncompressed_size,
    };
    let start = usize::try_from(range.offset).ok()?;
    let place = start..start.checked_add(usize::try_from(len).ok()?)?;
    if !is_compressed {
        return Some(Part::Mapped(place));
    }
    let is_possible = range.uncompressed_size <= most(range.format, range.compressed_size);
    is_possible.then(|| {
        Part::Compressed(CompressedPart {
            place,
            format: range.format,
            len: range.uncompressed_size,
            memory: memory.clone(),
            reserved: Mutex::new(None),
            inflated: OnceLock::new(),
        })
    })
}

/// Returns the maximum decompressed length, as memory is reserved before decompression. deflate
/// writes 258 bytes for two bits. A Zstandard block has at most 128 KiB, from four bytes if all are
/// equal (RFC 8878, section 3.1.1.2).
fn most(format: CompressionFormat, compressed: u64) -> u64 {
    let (ratio, least) = match format {
        CompressionFormat::Zstandard => (32 << 10, 128 << 10),
        _ => (1032, 1032),
    };
    compressed.saturating_mul(ratio).saturating_add(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use gimli::{Reader, Section};
    use std::io::Write;

    #[test]
    fn claims_beyond_the_format() {
        assert!(most(CompressionFormat::Zlib, 1000) >= 1_032_000);
        assert!(most(CompressionFormat::Zlib, 400) < 256 << 20);
        assert!(most(CompressionFormat::Zstandard, 1000) >= 250 * (128 << 10));
        assert_eq!(most(CompressionFormat::Zlib, u64::MAX), u64::MAX);
    }

    /// Builds an ELF file with sections compressed by zlib. Truncates each by `cut` bytes.
    fn elf(sections: &[(&str, &[u8])], cut: usize) -> Vec<u8> {
        let mut names = vec![0];
        let mut body = vec![0; 64];
        let mut headers = vec![[0u64; 8]];
        for (name, bytes) in sections {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            let mut packed = vec![1, 0, 0, 0, 0, 0, 0, 0];
            packed.extend((bytes.len() as u64).to_le_bytes());
            packed.extend(1u64.to_le_bytes());
            packed.extend(encoder.finish().unwrap());
            packed.truncate(packed.len() - cut);
            // Name and type, flags, address, offset, length, links, alignment, entry size.
            let (at, len) = (body.len() as u64, packed.len() as u64);
            headers.push([names.len() as u64 | 1 << 32, 0x800, 0, at, len, 0, 1, 0]);
            body.extend(packed);
            names.extend(name.bytes().chain([0]));
        }
        let name = names.len() as u64;
        names.extend(b".shstrtab\0");
        let (at, len) = (body.len() as u64, names.len() as u64);
        headers.push([name | 3 << 32, 0, 0, at, len, 0, 1, 0]);
        body.extend(names);
        let table = body.len() as u64;
        for number in headers.iter().flatten() {
            body.extend(number.to_le_bytes());
        }
        body[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        body[20] = 1;
        body[40..48].copy_from_slice(&table.to_le_bytes());
        body[52] = 64;
        body[58] = 64;
        body[60] = headers.len() as u8;
        body[62] = headers.len() as u8 - 1;
        body
    }

    const INFO: [u8; 5000] = [7; 5000];
    const LINE: [u8; 3000] = [8; 3000];
    const SECTIONS: [(&str, &[u8]); 3] = [
        (".debug_info", &INFO),
        (".debug_line", &LINE),
        (".debug_aranges", &[9; 100]),
    ];

    fn left(memory: &MemoryBudget, most: u64) -> bool {
        // No other thread uses the budget.
        memory.take(most).is_some()
    }

    #[test]
    fn a_section_is_decompressed_when_it_is_used() {
        let bytes = elf(&SECTIONS, 0);
        let memory = MemoryBudget::new(10_000);
        let sections = Sections::find(&bytes, Naming::Usual, &memory)
            .unwrap()
            .unwrap();
        assert_eq!(sections.len(), 8100);
        let is_inflated = |id| match sections.part(id) {
            Some(Part::Compressed(part)) => part.inflated.get().is_some(),
            _ => false,
        };
        assert!(!is_inflated(SectionId::DebugInfo));
        assert!(left(&memory, 5000) && !left(&memory, 5001));
        sections.inflate(&bytes, false, 2);
        assert!(is_inflated(SectionId::DebugInfo) && !is_inflated(SectionId::DebugLine));
        let dwarf = sections.dwarf(&bytes, false);
        assert_eq!(dwarf.debug_info.reader().slice(), INFO);
        assert!(dwarf.debug_line.reader().is_empty() && !is_inflated(SectionId::DebugLine));
        assert!(left(&memory, 5000) && !left(&memory, 5001));
        let dwarf = sections.dwarf(&bytes, true);
        assert_eq!(dwarf.debug_line.reader().slice(), LINE);
        assert!(left(&memory, 2000) && !left(&memory, 2001));
        assert!(!is_inflated(SectionId::DebugAranges));
        assert_eq!(
            sections.get(&bytes, SectionId::DebugAranges).slice(),
            [9; 100]
        );
        drop(sections);
        assert!(left(&memory, 10_000));
    }

    #[test]
    fn a_damaged_section_is_absent_and_takes_no_memory() {
        let bytes = elf(&SECTIONS, 10);
        let memory = MemoryBudget::new(10_000);
        let sections = Sections::find(&bytes, Naming::Usual, &memory)
            .unwrap()
            .unwrap();
        sections.inflate(&bytes, true, 2);
        for id in [
            SectionId::DebugInfo,
            SectionId::DebugLine,
            SectionId::DebugAranges,
        ] {
            assert!(sections.get(&bytes, id).is_empty());
        }
        assert!(left(&memory, 10_000));
        assert_eq!(memory.refused(), 0);
        let whole = elf(&SECTIONS, 0);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            for bytes in [&bytes[..], &whole[..at]] {
                if let Ok(Some(sections)) = Sections::find(bytes, Naming::Usual, &memory) {
                    sections.inflate(bytes, true, 1);
                    let found = sections.get(bytes, SectionId::DebugInfo);
                    assert!(found.is_empty() || found.len() <= 10_000);
                }
            }
        }
        assert!(left(&memory, 10_000));
    }

    #[test]
    fn what_every_lookup_needs_has_memory_or_nothing_is_taken() {
        let bytes = elf(&SECTIONS, 0);
        let little = MemoryBudget::new(4999);
        let found = Sections::find(&bytes, Naming::Usual, &little);
        assert_eq!(found.err(), Some(NoRoom));
        assert!(left(&little, 4999));
        assert_eq!(little.refused(), 1);
        let more = MemoryBudget::new(5000 + 2999);
        let sections = Sections::find(&bytes, Naming::Usual, &more)
            .unwrap()
            .unwrap();
        sections.inflate(&bytes, true, 2);
        let dwarf = sections.dwarf(&bytes, true);
        assert_eq!(dwarf.debug_info.reader().slice(), INFO);
        assert!(dwarf.debug_line.reader().is_empty());
        assert_eq!(more.refused(), 1);
    }
}
