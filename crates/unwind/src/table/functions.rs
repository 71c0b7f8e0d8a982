//! [`FunctionRanges`]: the functions of an image, as its call frame information describes them.

use super::cfi::{Cfi, eh_frame};
use super::elf::Elf;
use crate::{Arch, TableError};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, Pointer, UnwindSection};
use rprof_image::Segments;
use std::ops::Range;

/// Functions of an ELF image without regard to symbols: one for each FDE of its call frame information. A part that
/// was split off (`.cold`) is a function of its own.
///
/// The table of `.eh_frame_hdr` is searched where there is one, so that a few lookups in a big image read a few pages of it.
/// Without it, and for `.debug_frame`, a list of all ranges is made.
///
/// Keeps nothing of the file; each lookup is given its bytes.
#[derive(Debug)]
pub struct FunctionRanges {
    segments: Segments,
    plts: Box<[(u64, u64)]>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Index(Index),
    /// Disjoint ranges of SVMAs, ascending.
    List(Box<[Range<u64>]>),
}

/// Place of `.eh_frame_hdr`, whose table is sorted by address, and of the section that it is for.
#[derive(Debug)]
struct Index {
    arch: Arch,
    hdr: Range<usize>,
    eh_frame: Range<usize>,
    bases: BaseAddresses,
}

impl FunctionRanges {
    /// Reads headers, and without an index all FDEs, some 100 ns for each.
    ///
    /// # Errors
    /// [`TableError`], for images that are of no use at all. Without call frame information there are no functions.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        let elf = Elf::parse(bytes)?;
        let index = match (elf.arch, &elf.debug_frame) {
            (Arch::X86_64, None) => Index::find(&elf, bytes),
            _ => None,
        };
        let segments = elf.segments.clone();
        let plts = elf.plts.clone().into();
        let source = match index {
            Some(index) => Source::Index(index),
            None => Source::List(described(elf).into()),
        };
        Ok(Self {
            segments,
            plts,
            source,
        })
    }

    /// Returns the range of the function that has this SVMA. `bytes` are those of the file that was parsed. Procedure
    /// linkage tables are no functions.
    #[must_use]
    pub fn at(&self, bytes: &[u8], svma: u64) -> Option<Range<u64>> {
        let is_in = |&(start, end): &(u64, u64)| start <= svma && svma < end;
        if self.plts.iter().any(is_in) {
            return None;
        }
        match &self.source {
            Source::Index(index) => {
                let found = index.at(bytes, svma)?;
                (found.start != 0 && self.segments.is_code(found.start)).then_some(found)
            }
            Source::List(list) => {
                let behind = list.partition_point(|function| function.start <= svma);
                let function = list.get(behind.checked_sub(1)?)?;
                function.contains(&svma).then(|| function.clone())
            }
        }
    }

    /// Returns the SVMAs at which the answer of [`at`](Self::at) may change, in no order. Reads all call frame information.
    #[must_use]
    pub fn bounds(&self, bytes: &[u8]) -> Vec<u64> {
        let listed;
        let functions: &[Range<u64>] = match &self.source {
            Source::List(list) => list,
            Source::Index(_) => {
                listed = Elf::parse(bytes).map(described).unwrap_or_default();
                &listed
            }
        };
        let plts = self.plts.iter().flat_map(|&(start, end)| [start, end]);
        let functions = functions.iter().flat_map(|f| [f.start, f.end]);
        functions.chain(plts).collect()
    }

    /// Returns about how many bytes of memory this takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let list = match &self.source {
            Source::Index(_) => 0,
            Source::List(list) => size_of_val(&**list),
        };
        size_of::<Self>() + size_of_val(&*self.plts) + list
    }
}

impl Index {
    /// Finds the index. `None` without one, or without a table in it.
    fn find(elf: &Elf<'_>, bytes: &[u8]) -> Option<Self> {
        let svma = elf.eh_frame_hdr?;
        let place = |svma| {
            let (offset, left) = elf.segments.offset_of_svma(svma)?;
            let start = usize::try_from(offset).ok()?;
            let end = start.saturating_add(usize::try_from(left).ok()?);
            let range = start..end.min(bytes.len());
            (!range.is_empty()).then_some(range)
        };
        let hdr = place(svma)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(svma);
        let parsed = EhFrameHdr::new(bytes.get(hdr.clone())?, LittleEndian);
        let parsed = parsed.parse(&bases, 8).ok()?;
        parsed.table()?;
        let Pointer::Direct(svma) = parsed.eh_frame_ptr() else {
            return None;
        };
        let mut bases = bases.set_eh_frame(svma);
        if let Some(text) = elf.text {
            bases = bases.set_text(text);
        }
        if let Some(got) = elf.got {
            bases = bases.set_got(got);
        }
        Some(Self {
            arch: elf.arch,
            hdr,
            eh_frame: place(svma)?,
            bases,
        })
    }

    fn at(&self, bytes: &[u8], svma: u64) -> Option<Range<u64>> {
        let hdr = EhFrameHdr::new(bytes.get(self.hdr.clone())?, LittleEndian);
        let hdr = hdr.parse(&self.bases, 8).ok()?;
        let section = eh_frame(bytes.get(self.eh_frame.clone())?, self.arch);
        let cie = EhFrame::cie_from_offset;
        let fde = (hdr.table()?)
            .fde_for_address(&section, &self.bases, svma, cie)
            .ok()?;
        let end = fde.initial_address().checked_add(fde.len())?;
        Some(fde.initial_address()..end)
    }
}

/// Returns the ranges of all FDEs, ascending. Of two that overlap the first ends where the second begins.
fn described(mut elf: Elf<'_>) -> Vec<Range<u64>> {
    let base = elf.segments.code_start();
    let sections = [(elf.eh_frame.take(), true), (elf.debug_frame.take(), false)];
    let mut described = Vec::new();
    for (section, eh) in sections {
        if let Some(section) = section {
            // Its index is not needed here.
            drop(Cfi::new(&elf, section, eh, base, &mut described));
        }
    }
    described.sort_by_key(|&(start, _)| start);
    described.dedup_by_key(|&mut (start, _)| start);
    let mut next = u64::MAX;
    for (start, end) in described.iter_mut().rev() {
        *end = next.min(*end);
        next = *start;
    }
    (described.into_iter())
        .map(|(start, end)| start..end)
        .collect()
}
