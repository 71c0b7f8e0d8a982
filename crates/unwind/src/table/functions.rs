//! [`FunctionRanges`]: the function bounds of an image.

use super::cfi::{Cfi, eh_frame};
use super::elf::{Elf, part};
use super::entry;
use crate::{Arch, TableError, code};
use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, Pointer, Register, RegisterRule,
    UnwindContext, UnwindSection,
};
use rprof_image::Segments;
use std::ops::Range;

/// Function bounds of an ELF image by its FDEs, without symbols. A split-off part (`.cold`) is a
/// function of its own.
///
/// On x86, lookups read a few pages of the table in `.eh_frame_hdr`. On AArch64, without that
/// table, or with a `.debug_frame`, parsing lists all ranges. Each lookup needs the file's bytes.
#[derive(Debug)]
pub struct FunctionRanges {
    arch: Arch,
    entry: u64,
    segments: Segments,
    plts: Box<[(u64, u64)]>,
    source: Source,
}

const BEFORE: u64 = 7;

#[derive(Debug)]
enum Source {
    Index(Index),
    List(Box<[Range<u64>]>),
}

/// File ranges of `.eh_frame_hdr`, whose table is sorted by address, and of `.eh_frame`.
#[derive(Debug)]
struct Index {
    arch: Arch,
    hdr: Range<usize>,
    eh_frame: Range<usize>,
    bases: BaseAddresses,
}

impl FunctionRanges {
    /// Parses the headers. Without an index also all FDEs, in about 100 ns each.
    ///
    /// # Errors
    /// [`TableError`] for unusable images. Without call frame information there are no functions.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        let elf = Elf::parse(bytes)?;
        let index = match (elf.arch, &elf.debug_frame) {
            (Arch::X86_64 | Arch::X86, None) => Index::find(&elf, bytes),
            _ => None,
        };
        let (elf_arch, entry) = (elf.arch, elf.entry);
        let segments = elf.segments.clone();
        let plts = elf.plts.clone().into();
        let source = match index {
            Some(index) => Source::Index(index),
            None => Source::List(described(elf).into()),
        };
        Ok(Self {
            arch: elf_arch,
            entry,
            segments,
            plts,
            source,
        })
    }

    /// Returns true if a return address belongs to the outermost frame of a stack: code at the
    /// entry point, a function without caller by its call frame information, or code that ends the
    /// thread or process. `offset` is its file offset, `bytes` the whole file.
    ///
    /// Needs no symbols, so it works for stripped programs, custom start code, any C library, and
    /// Go.
    #[must_use]
    pub fn is_root(&self, bytes: &[u8], offset: u64) -> bool {
        let inside = offset
            .checked_sub(1)
            .and_then(|offset| self.segments.svma(offset));
        let Some(inside) = inside else {
            return false;
        };
        let return_address = inside.saturating_add(1);
        let code_at = |svma| {
            let (offset, left) = self.segments.offset_of_svma(svma)?;
            part(bytes, offset, left)
        };
        let starts_image = match self.at(bytes, inside) {
            Some(function) => function.contains(&self.entry),
            None => {
                let len = code_at(self.entry).map_or(0, |code| entry::len(self.arch, code));
                (self.entry..self.entry.saturating_add(len)).contains(&inside)
            }
        };
        let has_no_caller = match &self.source {
            Source::Index(index) => index.has_no_caller(bytes, inside),
            Source::List(_) => None,
        };
        if (starts_image && self.entry != 0) || has_no_caller == Some(true) {
            return true;
        }
        if !self.arch.is_x86() {
            return false;
        }
        let before = return_address.checked_sub(BEFORE).and_then(code_at);
        let (Some(before), Some(behind)) = (before, code_at(return_address)) else {
            return false;
        };
        let before = before.get(..BEFORE as usize).unwrap_or(&[]);
        let behind = behind.get(..code::LEN).unwrap_or(behind);
        has_no_caller.is_none()
            && (code::exits(self.arch, behind)
                || code::is_exit(self.arch, before, behind)
                || code::synthetic_return(self.arch, before, behind)
                    == Some(code::SyntheticReturn::GoExit))
    }

    /// Returns the range of the function that contains this SVMA. `None` for PLT entries. `bytes`
    /// is the parsed file.
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

    /// Returns the SVMAs where the result of [`at`](Self::at) may change, unordered. Reads all
    /// FDEs.
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

    /// Returns the memory usage in bytes, approximately.
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
        let parsed = parsed.parse(&bases, elf.arch.word_size() as u8).ok()?;
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
        let hdr = hdr.parse(&self.bases, self.arch.word_size() as u8).ok()?;
        let section = eh_frame(bytes.get(self.eh_frame.clone())?, self.arch);
        let cie = EhFrame::cie_from_offset;
        let fde = (hdr.table()?)
            .fde_for_address(&section, &self.bases, svma, cie)
            .ok()?;
        let end = fde.initial_address().checked_add(fde.len())?;
        Some(fde.initial_address()..end)
    }
}

impl Index {
    fn has_no_caller(&self, bytes: &[u8], svma: u64) -> Option<bool> {
        let hdr = EhFrameHdr::new(bytes.get(self.hdr.clone())?, LittleEndian);
        let hdr = hdr.parse(&self.bases, self.arch.word_size() as u8).ok()?;
        let section = eh_frame(bytes.get(self.eh_frame.clone())?, self.arch);
        let cie = EhFrame::cie_from_offset;
        let fde = (hdr.table()?)
            .fde_for_address(&section, &self.bases, svma, cie)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&section, &self.bases, &mut context, svma);
        let address = Register(self.arch.return_address().into());
        let rule = row.ok()?.register(address);
        Some(rule == Some(RegisterRule::Undefined))
    }
}

/// Returns the ranges of all FDEs, ascending. Overlaps are cut at the next start.
pub(super) fn described(mut elf: Elf<'_>) -> Vec<Range<u64>> {
    let base = elf.segments.code_start();
    let sections = [(elf.eh_frame.take(), true), (elf.debug_frame.take(), false)];
    let mut described = Vec::new();
    for (section, eh) in sections {
        if let Some(section) = section {
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
