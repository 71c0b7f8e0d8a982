//! Rows of single samples in a few bytes each, sorted by block and merged by time.
//!
//! A recording is only roughly in time order: ring by ring within a round. Each block's rows are
//! sorted at once, and all blocks are merged at the end. Only overlapping blocks are open at a
//! time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rprof_profile::{SampleStream, StreamIter, StreamedSample};

/// Row of one sample, without its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactRow {
    time: u64,
    cpu: Option<u32>,
    period: u64,
}

impl CompactRow {
    #[inline]
    pub(crate) fn new(time: Option<u64>, cpu: Option<u32>, period: u64) -> CompactRow {
        CompactRow {
            time: time.unwrap_or(0),
            cpu,
            period,
        }
    }

    fn counted(self, entry: u32) -> StreamedSample {
        StreamedSample {
            time: self.time,
            cpu: self.cpu,
            entry,
            weight: self.period,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RowsOfBlock {
    rows: Vec<StreamedSample>,
    /// Rows of queued samples. The first `counted` have their key.
    queued: Vec<CompactRow>,
    counted: usize,
}

impl RowsOfBlock {
    #[inline]
    pub(crate) fn push_queued(&mut self, row: CompactRow) {
        self.queued.push(row);
    }

    /// Adds the key of the first queued row without one.
    #[inline]
    pub(crate) fn counted(&mut self, key: u32) {
        if let Some(row) = self.queued.get(self.counted) {
            self.rows.push(row.counted(key));
        }
        self.counted += 1;
        if self.counted >= self.queued.len() {
            self.queued.clear();
            self.counted = 0;
        }
    }

    pub(crate) fn push_counted(&mut self, row: CompactRow, key: u32) {
        self.rows.push(row.counted(key));
    }

    /// Ends the block. Returns its rows by time, then in file order; `None` if empty.
    pub(crate) fn finish(&mut self, block: usize) -> Option<BlockRows> {
        if !self.rows.is_sorted_by_key(|row| row.time) {
            self.rows.sort_by_key(|row| row.time);
        }
        let first = self.rows.first()?.time;
        let mut rows = SampleStream::default();
        self.rows.drain(..).for_each(|row| rows.push(row));
        rows.shrink_to_fit();
        Some(BlockRows { block, first, rows })
    }
}

/// Rows of a block by time, each with its key number.
#[derive(Debug)]
pub(crate) struct BlockRows {
    block: usize,
    first: u64,
    rows: SampleStream,
}

/// Iterates over the rows of all blocks by time, then in file order, each with the number of its
/// worker.
#[derive(Debug)]
pub(crate) struct RowsInTime {
    /// Unopened blocks, the first at the end.
    closed: Vec<(usize, BlockRows)>,
    open: BinaryHeap<Reverse<OpenBlock>>,
}

#[derive(Debug)]
struct OpenBlock {
    row: StreamedSample,
    block: usize,
    worker: usize,
    rest: StreamIter<Vec<u8>>,
}

impl OpenBlock {
    fn key(&self) -> (u64, usize) {
        (self.row.time, self.block)
    }
}

impl PartialEq for OpenBlock {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for OpenBlock {}

impl PartialOrd for OpenBlock {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpenBlock {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl RowsInTime {
    pub(crate) fn new(workers: impl IntoIterator<Item = Vec<BlockRows>>) -> RowsInTime {
        let mut closed: Vec<(usize, BlockRows)> = (workers.into_iter().enumerate())
            .flat_map(|(worker, blocks)| blocks.into_iter().map(move |block| (worker, block)))
            .collect();
        closed.sort_unstable_by_key(|(_, rows)| Reverse((rows.first, rows.block)));
        RowsInTime {
            closed,
            open: BinaryHeap::new(),
        }
    }

    /// Opens the blocks that start no later than the next row.
    fn open(&mut self) {
        while let Some((_, rows)) = self.closed.last() {
            let next = self.open.peek().map(|Reverse(open)| open.key());
            if next.is_some_and(|next| next < (rows.first, rows.block)) {
                return;
            }
            if let Some((worker, BlockRows { block, rows, .. })) = self.closed.pop() {
                let mut rest = rows.into_iter();
                self.open.extend(rest.next().map(|row| {
                    Reverse(OpenBlock {
                        row,
                        block,
                        worker,
                        rest,
                    })
                }));
            }
        }
    }
}

impl Iterator for RowsInTime {
    type Item = (usize, StreamedSample);

    fn next(&mut self) -> Option<(usize, StreamedSample)> {
        self.open();
        let mut first = self.open.peek_mut()?;
        let Reverse(OpenBlock {
            row, worker, rest, ..
        }) = &mut *first;
        let found = (*worker, *row);
        match rest.next() {
            Some(next) => *row = next,
            None => drop(std::collections::binary_heap::PeekMut::pop(first)),
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(block: usize, times: &[u64], key: u32) -> BlockRows {
        let mut rows = RowsOfBlock::default();
        let row = |time: &u64| CompactRow::new(Some(*time), Some(1), *time);
        times.iter().for_each(|time| rows.push_queued(row(time)));
        (key..).zip(times).for_each(|(key, _)| rows.counted(key));
        rows.finish(block).unwrap()
    }

    #[test]
    fn rows_of_all_workers_come_in_order_of_time() {
        let workers = [
            vec![block(0, &[1, 4, 2, 5], 0), block(2, &[5, 9, 6], 10)],
            vec![block(1, &[5, 8, 3], 20), block(3, &[100], 30)],
        ];
        let found: Vec<(usize, u64, u32)> = RowsInTime::new(workers)
            .map(|(worker, row)| (worker, row.time, row.entry))
            .collect();
        let expected = [
            (0, 1, 0),
            (0, 2, 2),
            (1, 3, 22),
            (0, 4, 1),
            (0, 5, 3),
            (1, 5, 20),
            (0, 5, 10),
            (0, 6, 12),
            (1, 8, 21),
            (0, 9, 11),
            (1, 100, 30),
        ];
        assert_eq!(found, expected);
        assert!(RowsInTime::new([vec![], vec![]]).next().is_none());
    }

    #[test]
    fn a_block_without_rows_is_none_and_the_next_one_begins_anew() {
        let mut rows = RowsOfBlock::default();
        assert!(rows.finish(0).is_none());
        rows.push_counted(CompactRow::new(None, None, 3), 7);
        let found = rows.finish(1).unwrap();
        assert_eq!((found.block, found.first, found.rows.len()), (1, 0, 1));
        assert!(rows.finish(2).is_none());
    }
}
