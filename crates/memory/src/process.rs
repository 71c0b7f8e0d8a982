//! Owners and mappings of one process.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::kinds::KindId;
use crate::pages::{Pages, Slot};

/// Maximum growth in bytes of a stack below its mapping. The kernel writes no record of it.
const STACK_GROWTH: u64 = 64 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) pages: Pages,
    /// Number of resident pages by owner. [`own`](Self::own) and [`disown`](Self::disown) change it.
    pub(crate) live: FxHashMap<Slot, u64>,
    pub(crate) resident: u64,
    /// Number of pages that ever became resident, by owner.
    pub(crate) touched: FxHashMap<Slot, u64>,
    pub(crate) mappings: Mappings,
    /// Faults on read-only files since the last look, with the page number.
    pub(crate) around: Vec<(u64, Slot)>,
}

impl Process {
    /// Moves a touched page from one owner to another.
    pub(crate) fn touch(&mut self, from: Option<Slot>, to: Slot) {
        if let Some(pages) = from.and_then(|from| self.touched.get_mut(&from)) {
            *pages = pages.saturating_sub(1);
        }
        *self.touched.entry(to).or_default() += 1;
    }

    /// Counts a resident page.
    pub(crate) fn own(&mut self, slot: Slot) {
        *self.live.entry(slot).or_default() += 1;
        self.resident += 1;
    }

    /// Counts a page less.
    pub(crate) fn disown(&mut self, slot: Slot) {
        if let Some(pages) = self.live.get_mut(&slot).filter(|pages| **pages > 0) {
            *pages -= 1;
            self.resident = self.resident.saturating_sub(1);
        }
    }

    /// Counts from zero again.
    pub(crate) fn disown_all(&mut self) {
        self.live.clear();
        self.resident = 0;
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) kind: KindId,
    /// True for a file that the process cannot write to: a fault makes its neighbours resident.
    pub(crate) is_read_only_file: bool,
}

/// Mappings of a process, by address. No record reports an unmapped range, so it keeps its kind
/// until the next look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings(BTreeMap<u64, (u64, Mapping)>);

impl Mappings {
    pub(crate) fn map(&mut self, range: Range<u64>, mapping: Mapping) {
        if range.is_empty() {
            return;
        }
        // The mapping before may reach into or beyond the new one.
        if let Some((start, (end, before))) = self.0.range(..range.start).next_back()
            && *end > range.start
        {
            let (start, end, before) = (*start, *end, *before);
            self.0.insert(start, (range.start, before));
            if end > range.end {
                self.0.insert(range.end, (end, before));
            }
        }
        let covered: Vec<(u64, (u64, Mapping))> = (self.0.range(range.clone()))
            .map(|(start, mapping)| (*start, *mapping))
            .collect();
        for (start, (end, before)) in covered {
            self.0.remove(&start);
            if end > range.end {
                self.0.insert(range.end, (end, before));
            }
        }
        self.0.insert(range.start, (range.end, mapping));
    }

    /// Returns the addresses of the read-only file at an address; `None` for other mappings.
    pub(crate) fn read_only_file(&self, address: u64) -> Option<Range<u64>> {
        let (start, (end, mapping)) = self.0.range(..=address).next_back()?;
        (mapping.is_read_only_file && address < *end).then_some(*start..*end)
    }

    /// Returns the kind of the mapping at an address. A stack grows down without a record, so
    /// addresses close below `stack` belong to it.
    pub(crate) fn at(&self, address: u64, stack: KindId) -> Option<KindId> {
        let before = self.0.range(..=address).next_back();
        if let Some((_, (end, mapping))) = before
            && address < *end
        {
            return Some(mapping.kind);
        }
        let (start, (_, mapping)) = self.0.range(address..).next()?;
        (mapping.kind == stack && start - address <= STACK_GROWTH).then_some(stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_mapping_replaces_the_overlapping_parts_of_others() {
        let [a, b, c, stack] = [0, 1, 2, 3].map(KindId);
        let mut all = Mappings::default();
        let mut map = |range, kind| {
            let mapping = Mapping {
                kind,
                is_read_only_file: kind == b,
            };
            all.map(range, mapping);
        };
        map(0x1000..0x9000, a);
        map(0x3000..0x4000, b);
        map(0x8000..0xa000, c);
        map(0x3800..0x3800, c);
        map(0x7000_0000..0x7001_0000, stack);
        let at = |address| all.at(address, stack);
        assert_eq!(all.read_only_file(0x3fff), Some(0x3000..0x4000));
        assert_eq!(all.read_only_file(0x4000), None);
        assert_eq!(at(0xfff), None);
        assert_eq!([at(0x1000), at(0x2fff)], [Some(a); 2]);
        assert_eq!([at(0x3000), at(0x3fff)], [Some(b); 2]);
        assert_eq!([at(0x4000), at(0x7fff)], [Some(a); 2]);
        assert_eq!([at(0x8000), at(0x9fff)], [Some(c); 2]);
        assert_eq!(at(0xa000), None);
        assert_eq!(at(0x6fff_f000), Some(stack), "the stack has grown");
    }
}
