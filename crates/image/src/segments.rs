//! [`Segments`]: translation of file offsets to SVMAs and back.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};

/// A `PT_LOAD` program header (System V ABI, "Program Header").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// File offset of the first byte (`p_offset`).
    pub offset: u64,
    /// Bytes in the file (`p_filesz`).
    pub file_size: u64,
    /// SVMA of the first byte (`p_vaddr`).
    pub svma: u64,
    /// Bytes in memory (`p_memsz`).
    pub memory_size: u64,
    /// Alignment in bytes (`p_align`): no kernel with larger pages can map the segment.
    pub align: u64,
    /// True if the segment is executable (`PF_X`).
    pub executable: bool,
}

/// Page sizes of kernels. All map at least the smallest page around a segment.
const PAGES: [u64; 3] = [4096, 16_384, 65_536];

/// Maximum number of segments, as a lookup walks the list. Real files rarely have more than ten.
const MAX_SEGMENTS: usize = 256;

/// The loaded segments of an ELF file, for translating file offsets to SVMAs.
///
/// The kernel maps whole pages, so a byte may be in memory twice. Linkers that do not pad (lld, `ld
/// -z noseparate-code`) end one segment and begin the next on the same page of the file. Samples
/// and recorded mappings refer to code, so [`Segments::svma`] takes the first match of:
///
/// 1. an executable segment with the byte in the file;
/// 2. an executable segment whose mapping starts at the byte, with any page size up to its
///    alignment;
/// 3. another segment with the byte in the file;
/// 4. an executable segment with the byte on its first or last page;
/// 5. another segment with the byte on its first or last page;
/// 6. a segment that would have the byte in its memory without file (`.bss`): recorders that
///    subtract addresses report such offsets.
///
/// ```
/// use rprof_image::{Segment, Segments};
///
/// // Two segments on one page of the file, as lld lays them out.
/// let segment = |offset, svma, file_size, executable| Segment {
///     offset, svma, file_size, memory_size: file_size, align: 0x1000, executable,
/// };
/// let segments = Segments::new(vec![
///     segment(0, 0, 0x1800, false),
///     segment(0x1800, 0x2800, 0x1000, true),
/// ]);
/// // The code is mapped from offset 0x1000 on, in whole pages.
/// assert_eq!(segments.svma(0x1000), Some(0x2000));
/// assert_eq!(segments.bias(0x7f00_0000_2000, 0x1000), Some(0x7f00_0000_0000));
/// assert_eq!(segments.svma(0x800), Some(0x800));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Segments(Box<[Segment]>);

/// Certainty that a segment contains a byte, descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Code,
    CodeStart,
    Data,
    CodePage,
    DataPage,
    Memory,
}

impl Segment {
    fn page_start(&self) -> u64 {
        self.offset & !(PAGES[0] - 1)
    }

    /// Returns the file offset after the last mapped page of `len` bytes.
    fn page_end(&self, len: u64) -> u64 {
        let end = self.offset.saturating_add(len);
        end.checked_next_multiple_of(PAGES[0]).unwrap_or(u64::MAX)
    }

    fn claim(&self, offset: u64) -> Option<Claim> {
        let is_on_pages =
            |len| len > 0 && self.page_start() <= offset && offset < self.page_end(len);
        let inside = offset.checked_sub(self.offset);
        if inside.is_some_and(|inside| inside < self.file_size) {
            Some(if self.executable {
                Claim::Code
            } else {
                Claim::Data
            })
        } else if self.executable && self.file_size > 0 && self.starts_mapping(offset) {
            Some(Claim::CodeStart)
        } else if is_on_pages(self.file_size) {
            Some(if self.executable {
                Claim::CodePage
            } else {
                Claim::DataPage
            })
        } else {
            is_on_pages(self.memory_size).then_some(Claim::Memory)
        }
    }

    fn starts_mapping(&self, offset: u64) -> bool {
        let mut pages = PAGES
            .into_iter()
            .take_while(|page| *page <= self.align.max(PAGES[0]));
        pages.any(|page| self.offset & !(page - 1) == offset)
    }

    fn holds(&self, svma: u64) -> bool {
        svma.checked_sub(self.svma)
            .is_some_and(|inside| inside < self.memory_size)
    }
}

impl Segments {
    /// Creates the table from segments in any order. Puts executable ones first.
    #[must_use]
    pub fn new(mut segments: Vec<Segment>) -> Self {
        segments.sort_by_key(|segment| !segment.executable);
        segments.truncate(MAX_SEGMENTS);
        Self(segments.into())
    }

    /// Parses the segments of an ELF file, a byte slice or a [`FileReader`](crate::FileReader).
    /// `None` if damaged.
    #[must_use]
    pub fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        match data.read_bytes_at(0, 5).ok()? {
            [0x7f, b'E', b'L', b'F', 1] => of_class::<elf::FileHeader32<_>>(data),
            [0x7f, b'E', b'L', b'F', 2] => of_class::<elf::FileHeader64<_>>(data),
            _ => None,
        }
    }

    /// Returns the SVMA of the byte at a file offset, by the rule above.
    #[must_use]
    pub fn svma(&self, offset: u64) -> Option<u64> {
        let claims = (self.0.iter()).filter_map(|segment| Some((segment.claim(offset)?, segment)));
        let (_, found) = claims.min_by_key(|(claim, _)| *claim)?;
        Some(found.svma.wrapping_add(offset.wrapping_sub(found.offset)))
    }

    /// Returns the bias (AVMA - SVMA) of an image with the byte at `offset` mapped at `avma`, for a
    /// code mapping from `/proc/PID/maps` or an MMAP record. Wraps.
    #[must_use]
    pub fn bias(&self, avma: u64, offset: u64) -> Option<u64> {
        Some(avma.wrapping_sub(self.svma(offset)?))
    }

    /// Returns the file offset of an SVMA, and the bytes left in the segment's file part.
    #[must_use]
    pub fn offset_of_svma(&self, svma: u64) -> Option<(u64, u64)> {
        self.0.iter().find_map(|segment| {
            let inside = svma.checked_sub(segment.svma)?;
            let left = segment.file_size.checked_sub(inside)?;
            (left != 0).then_some((segment.offset.checked_add(inside)?, left))
        })
    }

    /// Returns true if a segment covers this SVMA in memory.
    #[must_use]
    pub fn contains(&self, svma: u64) -> bool {
        self.0.iter().any(|segment| segment.holds(svma))
    }

    /// Returns true if this SVMA is in executable code, or if the image has no executable segment.
    #[must_use]
    pub fn is_code(&self, svma: u64) -> bool {
        let mut code = self.code().peekable();
        code.peek().is_none() || code.any(|segment| segment.holds(svma))
    }

    /// Returns the executable segments.
    pub fn code(&self) -> impl Iterator<Item = &Segment> {
        self.0.iter().filter(|segment| segment.executable)
    }

    /// Returns the lowest SVMA of any executable segment; 0 if there is none.
    #[must_use]
    pub fn code_start(&self) -> u64 {
        self.code().map(|code| code.svma).min().unwrap_or(0)
    }

    /// Returns start and end SVMAs of all segments in memory.
    pub fn bounds(&self) -> impl Iterator<Item = u64> {
        let bounds = |s: &Segment| [s.svma, s.svma.saturating_add(s.memory_size)];
        self.0.iter().flat_map(bounds)
    }

    /// Returns the file offsets of sorted SVMAs, and the offsets where [`svma`](Self::svma) changes
    /// segments or memory ends. Unsorted. `None` above `most`.
    #[must_use]
    pub fn offset_bounds(&self, svmas: &[u64], most: usize) -> Option<Vec<u64>> {
        let mut bounds = vec![0];
        for segment in &self.0 {
            let low = segment.page_start();
            let high = segment.page_end(segment.file_size.max(segment.memory_size));
            let starts = PAGES.map(|page| segment.offset & !(page - 1));
            bounds.extend(
                starts
                    .iter()
                    .flat_map(|start| [*start, start.saturating_add(1)]),
            );
            let file_end = segment.offset.saturating_add(segment.file_size);
            let file_high = segment.page_end(segment.file_size);
            let memory_end = segment.offset.saturating_add(segment.memory_size);
            bounds.extend([low, segment.offset, file_end, file_high, memory_end, high]);
            let first = segment.svma.saturating_sub(segment.offset - low);
            let last = segment.svma.saturating_add(high - segment.offset);
            let inside = svmas.partition_point(|svma| *svma < first)
                ..svmas.partition_point(|svma| *svma < last);
            if bounds.len().saturating_add(inside.len()) > most {
                return None;
            }
            let offset = |svma: &u64| {
                (svma.checked_sub(segment.svma)).map_or_else(
                    || segment.offset.saturating_sub(segment.svma - svma),
                    |inside| segment.offset.saturating_add(inside),
                )
            };
            bounds.extend(svmas.get(inside).unwrap_or_default().iter().map(offset));
        }
        Some(bounds)
    }
}

fn of_class<'data, E: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> Option<Segments> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, data).ok()?;
    let loads = (headers.iter()).filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let segments = loads.map(|header| Segment {
        offset: header.p_offset(endian).into(),
        file_size: header.p_filesz(endian).into(),
        svma: header.p_vaddr(endian).into(),
        memory_size: header.p_memsz(endian).into(),
        align: header.p_align(endian).into(),
        executable: header.p_flags(endian).contains(elf::PF_X),
    });
    Some(Segments::new(segments.collect()))
}

#[cfg(test)]
mod tests;
