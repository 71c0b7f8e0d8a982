//! Lists the FDEs of a section in address order.

use gimli::{
    BaseAddresses, CommonInformationEntry, EndianSlice, LittleEndian, UnwindOffset, UnwindSection,
};
use rprof_image::Segments;
use rustc_hash::FxHashMap;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(crate) type Cie<'a> = CommonInformationEntry<Slice<'a>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fde {
    /// Start, relative to the table's base.
    pub(crate) start: u32,
    /// End, relative to the table's base.
    pub(crate) end: u32,
    pub(crate) offset: u32,
}

/// Cache of CIEs. Neighbouring FDEs nearly always share one.
pub(crate) struct Cies<'a> {
    all: FxHashMap<usize, Option<Cie<'a>>>,
    last: Option<(usize, Cie<'a>)>,
}

impl<'a> Cies<'a> {
    pub(crate) fn new() -> Self {
        Self {
            all: FxHashMap::default(),
            last: None,
        }
    }

    pub(crate) fn get<S>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        offset: S::Offset,
    ) -> gimli::Result<Cie<'a>>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let key = UnwindOffset::into(offset);
        if let Some((last, cie)) = &self.last
            && *last == key
        {
            return Ok(cie.clone());
        }
        let cie = self
            .all
            .entry(key)
            .or_insert_with(|| section.cie_from_offset(bases, offset).ok())
            .clone()
            .ok_or(gimli::Error::UnknownAugmentation)?;
        self.last = Some((key, cie.clone()));
        Ok(cie)
    }
}

pub(crate) struct Walk<'a> {
    pub(crate) bytes: &'a [u8],
    /// True for `.eh_frame`: CIEs have id 0, and length 0 terminates the list.
    pub(crate) eh: bool,
    /// Maximum number of FDEs, if the section's end is unknown.
    pub(crate) count: Option<usize>,
    pub(crate) base: u64,
    pub(crate) segments: &'a Segments,
}

impl<'a> Walk<'a> {
    /// Returns all FDEs, sorted by address, without overlaps. Does not use `.eh_frame_hdr`, which
    /// some linkers omit: a full pass takes only about 100 ns for each FDE. Drops unparsable FDEs,
    /// and those outside code, which linkers leave behind for removed functions.
    pub(crate) fn run<S>(&self, section: &S, bases: &BaseAddresses) -> Vec<Fde>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let mut cies = Cies::new();
        let mut fdes: Vec<Fde> = Vec::new();
        let mut at = 0_usize;
        while let Some(entry) = Entry::read(self.bytes, at) {
            if entry.len == 0 {
                // The terminator. Another object file's entries may follow up to the section's end.
                if !self.eh || self.count.is_some() {
                    break;
                }
                at = entry.next;
                continue;
            }
            if !entry.is_cie(self.eh) {
                let fde = section.fde_from_offset(
                    bases,
                    S::Offset::from(at),
                    |section, bases, offset| cies.get(section, bases, offset),
                );
                if let Ok(fde) = fde
                    && let Some(fde) = self.fde(at, fde.initial_address(), fde.len())
                {
                    fdes.push(fde);
                }
                if self.count.is_some_and(|count| fdes.len() >= count) {
                    break;
                }
            }
            at = entry.next;
        }
        disjoint(fdes)
    }

    fn fde(&self, offset: usize, start: u64, len: u64) -> Option<Fde> {
        let within = start.checked_sub(self.base)?;
        let start_offset = u32::try_from(within).ok()?;
        let end = u32::try_from(within.checked_add(len)?).ok()?;
        let offset = u32::try_from(offset).ok()?;
        // An FDE at 0 (the ELF header) belongs to a removed function.
        (len != 0 && start != 0 && self.segments.is_code(start)).then_some(Fde {
            start: start_offset,
            end,
            offset,
        })
    }
}

pub(crate) struct Entry {
    pub(crate) len: u64,
    id: u64,
    /// Value of `id` in a CIE of `.debug_frame`.
    debug_frame_cie: u64,
    pub(crate) body: usize,
    pub(crate) next: usize,
}

impl Entry {
    /// Returns true for a CIE. `eh`: the section is `.eh_frame`.
    pub(crate) fn is_cie(&self, eh: bool) -> bool {
        self.len != 0 && self.id == if eh { 0 } else { self.debug_frame_cie }
    }

    pub(crate) fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let rest = bytes.get(at..)?;
        let (word, rest) = rest.split_first_chunk()?;
        let short = u32::from_le_bytes(*word);
        let (len, rest, wide) = if short == u32::MAX {
            let (len, rest) = rest.split_first_chunk()?;
            (u64::from_le_bytes(*len), rest, true)
        } else {
            (u64::from(short), rest, false)
        };
        let start = bytes.len() - rest.len();
        let next = start.checked_add(usize::try_from(len).ok()?)?;
        if next > bytes.len() {
            return None;
        }
        if len == 0 {
            return Some(Self {
                len,
                id: 0,
                debug_frame_cie: 0,
                body: next,
                next,
            });
        }
        let (id, debug_frame_cie) = if wide {
            let id = u64::from_le_bytes(*rest.first_chunk()?);
            (id, u64::MAX)
        } else {
            let id = u32::from_le_bytes(*rest.first_chunk()?);
            (u64::from(id), u64::from(u32::MAX))
        };
        let body = start + if wide { 8 } else { 4 };
        Some(Self {
            len,
            id,
            debug_frame_cie,
            body,
            next,
        })
    }
}

/// Sorts FDEs and cuts each at the next start. Of several with one start, keeps the first in the
/// section.
fn disjoint(mut fdes: Vec<Fde>) -> Vec<Fde> {
    fdes.sort_by_key(|fde| fde.start);
    fdes.dedup_by_key(|fde| fde.start);
    let mut next = u32::MAX;
    for fde in fdes.iter_mut().rev() {
        fde.end = fde.end.min(next);
        next = fde.start;
    }
    fdes
}
