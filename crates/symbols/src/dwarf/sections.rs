//! Debug sections of one file, decompressed where necessary.

use gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::ElfFile;
use object::{CompressionFormat, Endianness, Object, ObjectSection};
use rprof_image::{MemoryBudget, MemoryLease};
use std::ops::Range;

/// Reader of DWARF: a slice of the file, in the file's byte order.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Sections that lookups need; location lists, macros and indexes by name are not read.
const NEEDED: [SectionId; 13] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugTypes,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
];

/// Further sections that gimli needs of packages: it cuts the part of a unit out of each.
const NEEDED_OF_PACKAGES: [SectionId; 4] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
];

/// There is no memory left for the decompressed sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Bytes of a section.
#[derive(Debug)]
enum Part {
    /// Range of the file.
    Mapped(Range<usize>),
    /// Decompressed bytes, and the memory that they take.
    Inflated(
        Vec<u8>,
        #[expect(dead_code, reason = "it ends with the bytes")] MemoryLease,
    ),
}

/// Naming scheme of the sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// `.debug_info`, or `.zdebug_info` in the old compressed form.
    Usual,
    /// `.debug_info.dwo`: split DWARF (DWARF 5, section 7.3.2).
    Split,
}

/// Debug sections of a file. The bytes are kept elsewhere, and each method must be handed the same
/// ones.
#[derive(Debug)]
pub(crate) struct Sections {
    parts: Vec<(SectionId, Part)>,
    endian: RunTimeEndian,
}

impl Sections {
    /// Finds and decompresses the sections. Returns `None` if `bytes` is no ELF file with debug
    /// information. Damaged sections count as absent.
    ///
    /// Compressed are those with `SHF_COMPRESSED` (zlib or zstd; System V ABI, "Section
    /// Compression") and `.zdebug_*` (binutils before 2.26). Where `memory` has no room for all of
    /// them, none is taken: the rest would make no sense without.
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
            Naming::Split => &NEEDED_OF_PACKAGES,
        };
        for &id in NEEDED.iter().chain(more) {
            let name = match naming {
                Naming::Usual => Some(id.name()),
                Naming::Split => id.dwo_name(),
            };
            let section = name.and_then(|name| file.section_by_name(name));
            let part = section.map(|section| part(&section, memory));
            parts.extend(part.transpose()?.flatten().map(|part| (id, part)));
        }
        let found = Self { parts, endian };
        Ok(found.has_info().then_some(found))
    }

    fn has_info(&self) -> bool {
        let is_some = |part: &Part| match part {
            Part::Mapped(range) => !range.is_empty(),
            Part::Inflated(bytes, _) => !bytes.is_empty(),
        };
        self.parts
            .iter()
            .any(|(id, part)| *id == SectionId::DebugInfo && is_some(part))
    }

    /// Returns the bytes of a section; empty if there is no such section.
    pub(crate) fn get<'a>(&'a self, bytes: &'a [u8], id: SectionId) -> Slice<'a> {
        let found = self.parts.iter().find(|(part, _)| *part == id);
        let slice = match found {
            Some((_, Part::Mapped(range))) => bytes.get(range.clone()).unwrap_or_default(),
            Some((_, Part::Inflated(bytes, _))) => bytes,
            None => &[],
        };
        EndianSlice::new(slice, self.endian)
    }

    /// Returns the bytes of all sections, decompressed.
    pub(crate) fn len(&self, bytes: &[u8]) -> u64 {
        let len = |(id, _): &(SectionId, Part)| self.get(bytes, *id).slice().len() as u64;
        self.parts.iter().map(len).sum()
    }

    /// Returns the file range of a part of a section. Returns `None` if the section was compressed.
    pub(crate) fn place(&self, id: SectionId, part: Range<usize>) -> Option<Range<usize>> {
        let (_, place) = self.parts.iter().find(|(found, _)| *found == id)?;
        let Part::Mapped(whole) = place else {
            return None;
        };
        let at = |offset: usize| whole.start.saturating_add(offset).min(whole.end);
        Some(at(part.start)..at(part.end))
    }

    /// Returns the byte order of the file.
    pub(crate) fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    /// Returns the sections together. Costs nothing: all are slices.
    pub(crate) fn dwarf<'a>(&'a self, bytes: &'a [u8]) -> Dwarf<Slice<'a>> {
        let load = |id| Ok::<_, std::convert::Infallible>(self.get(bytes, id));
        let Ok(dwarf) = Dwarf::load(load);
        dwarf
    }
}

/// Returns the bytes of a section; `None` if it is damaged.
fn part<'data>(
    section: &impl ObjectSection<'data>,
    memory: &MemoryBudget,
) -> Result<Option<Part>, NoRoom> {
    let Ok(range) = section.compressed_file_range() else {
        return Ok(None);
    };
    if range.format == CompressionFormat::None {
        let mapped = || {
            let start = usize::try_from(range.offset).ok()?;
            let len = usize::try_from(range.uncompressed_size).ok()?;
            Some(Part::Mapped(start..start.checked_add(len)?))
        };
        return Ok(mapped());
    }
    if range.uncompressed_size > most(range.format, range.compressed_size) {
        return Ok(None);
    }
    let lease = memory.take(range.uncompressed_size).ok_or(NoRoom)?;
    let data = section.compressed_data();
    let inflated = data.and_then(object::CompressedData::decompress);
    Ok((inflated.ok()).map(|bytes| Part::Inflated(bytes.into_owned(), lease)))
}

/// Returns an upper bound on the decompressed length, whatever the header claims: deflate writes
/// 258 bytes for two bits, and a block of Zstandard is 128 KiB, from four bytes if all are equal
/// (RFC 8878, section 3.1.1.2). Memory is reserved before the first byte is decompressed.
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

    #[test]
    fn claims_beyond_the_format() {
        assert!(most(CompressionFormat::Zlib, 1000) >= 1_032_000);
        assert!(most(CompressionFormat::Zlib, 400) < 256 << 20);
        assert!(most(CompressionFormat::Zstandard, 1000) >= 250 * (128 << 10));
        assert_eq!(most(CompressionFormat::Zlib, u64::MAX), u64::MAX);
    }
}
