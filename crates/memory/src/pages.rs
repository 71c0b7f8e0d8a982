//! [`Pages`]: the table from page to owner of one process.
//!
//! 512 pages share a chunk, as they share a page table of the CPU. So a chunk of 2 KiB stands
//! beside at least 8 KiB of the process: a page and its page table. A forked process shares the
//! chunks of its parent until one of the two changes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages of a chunk: 2 MiB with pages of 4 KiB.
pub(crate) const CHUNK: u64 = 512;

/// Number of an owner and a kind of mapping, plus one; 0 for an absent page.
type Cell = u32;

/// Number of an owner and a kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

#[derive(Clone, Debug)]
pub(crate) struct Chunk([Cell; CHUNK as usize]);

impl Chunk {
    pub(crate) fn get(&self, page: u64) -> Option<Slot> {
        self.0[(page % CHUNK) as usize].checked_sub(1).map(Slot)
    }

    fn clear(&mut self, page: u64) {
        self.0[(page % CHUNK) as usize] = 0;
    }

    pub(crate) fn set(&mut self, page: u64, slot: Slot) -> Option<Slot> {
        let cell = &mut self.0[(page % CHUNK) as usize];
        let before = cell.checked_sub(1).map(Slot);
        *cell = slot.0.saturating_add(1);
        before
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(BTreeMap<u64, Arc<Chunk>>);

impl Pages {
    /// Sets the owner of a page, and returns the previous one.
    pub(crate) fn set(&mut self, page: u64, slot: Slot) -> Option<Slot> {
        self.chunk_mut(page).set(page, slot)
    }

    pub(crate) fn chunk(&self, page: u64) -> Option<&Chunk> {
        self.0.get(&(page / CHUNK)).map(|chunk| &**chunk)
    }

    /// Returns the chunk of a page; creates it if necessary.
    pub(crate) fn chunk_mut(&mut self, page: u64) -> &mut Chunk {
        let new = || Arc::new(Chunk([0; CHUNK as usize]));
        Arc::make_mut(self.0.entry(page / CHUNK).or_insert_with(new))
    }

    /// Removes the owners of a range, and returns the pages that had one, in order.
    pub(crate) fn take(&mut self, pages: std::ops::Range<u64>) -> Vec<(u64, Slot)> {
        let taken: Vec<(u64, Slot)> = self.within(pages).collect();
        for (page, _) in &taken {
            self.chunk_mut(*page).clear(*page);
        }
        taken
    }

    /// Iterates over the owned pages of a range, in order.
    pub(crate) fn within(
        &self,
        pages: std::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, Slot)> + '_ {
        let last = (pages.end / CHUNK).max(pages.start / CHUNK);
        let chunks = self.0.range(pages.start / CHUNK..=last);
        chunks.flat_map(move |(number, chunk)| {
            let first = number * CHUNK;
            let own = pages.start.max(first)..pages.end.min(first + CHUNK);
            own.filter_map(move |page| Some((page, chunk.get(page)?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_shares_pages_until_one_side_changes() {
        let mut parent = Pages::default();
        assert_eq!(parent.set(511, Slot(3)), None);
        let mut child = parent.clone();
        assert_eq!(child.set(511, Slot(4)), Some(Slot(3)));
        child.set(512, Slot(5));
        let all: Vec<_> = parent.within(0..1024).collect();
        assert_eq!(all, [(511, Slot(3))]);
        let all: Vec<_> = child.within(0..1024).collect();
        assert_eq!(all, [(511, Slot(4)), (512, Slot(5))]);
        assert_eq!(child.within(512..512).count(), 0);
        assert_eq!(child.take(0..512), [(511, Slot(4))]);
        assert_eq!(child.take(0..1024), [(512, Slot(5))]);
        assert_eq!(parent.within(0..1024).count(), 1);
    }
}
