//! [`Snapshot`]: pieces of process memory, read for one look. [`RecentAddresses`]: addresses that are
//! probably needed next.

use std::collections::VecDeque;

use super::layout::FRAME_BYTES;
use crate::{MemoryRead, ProcessMemory};

/// Maximum number of further batches.
const MAX_BATCHES: u32 = 24;

/// Bytes read below a frame: its callers are there.
const BELOW: u64 = 1024;

/// Bytes read above a frame: functions called meanwhile are there.
const ABOVE: u64 = 512;

/// Bytes read below a frame when a stack has many frames.
const FAR_BELOW: u64 = 16 << 10;

/// Bytes below a frame, and in total, that are read if the reads are cheap.
const NEAR_BELOW: u64 = 768;
const NEAR: u64 = 1024;

/// Maximum number of frames with a read of their surroundings in a batch.
const MAX_FRAMES: usize = 64;

pub(super) const PAGE: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pieces: Vec<MemoryRead>,
    batches: u32,
}

/// Maximum bytes between two ranges of a page that one read takes in: a read costs more than they do.
const BETWEEN: u64 = 512;

/// Returns reads of ranges of memory. No read crosses a page: unmapped memory may precede or follow
/// the page, and would fail the whole read.
pub(super) fn ranges(mut ranges: Vec<(u64, u64)>) -> Vec<MemoryRead> {
    ranges.sort_unstable();
    let is_near = |done: u64, start: u64| {
        start.saturating_sub(done) <= BETWEEN && start / PAGE == done.saturating_sub(1) / PAGE
    };
    ranges.dedup_by(|next, range| {
        let is_joined = next.0 <= range.1 || is_near(range.1, next.0);
        if is_joined {
            range.1 = range.1.max(next.1);
        }
        is_joined
    });
    let mut reads = Vec::new();
    for (mut start, end) in ranges {
        while start < end {
            let next = (start - start % PAGE).saturating_add(PAGE).min(end);
            reads.push(MemoryRead::new(start, (next - start) as usize));
            start = next;
        }
    }
    reads
}

/// Returns reads of the memory around frames.
pub(super) fn around(frames: &[u64]) -> Vec<MemoryRead> {
    let around = |frame: &u64| (frame.saturating_sub(BELOW), frame.saturating_add(ABOVE));
    ranges(frames.iter().take(MAX_FRAMES).map(around).collect())
}

impl Snapshot {
    pub(super) fn new(reads: impl IntoIterator<Item = MemoryRead>) -> Self {
        let mut snapshot = Self::default();
        snapshot.add(reads);
        snapshot
    }

    fn add(&mut self, reads: impl IntoIterator<Item = MemoryRead>) {
        let pieces = reads.into_iter().filter(|read| read.is_read);
        self.pieces.extend(pieces);
        self.pieces.sort_unstable_by_key(|read| read.address);
    }

    /// Reads the memory around another address. At the limit nothing is read.
    pub(super) fn read_around(&mut self, address: u64, memory: &mut dyn ProcessMemory) {
        if self.batches >= MAX_BATCHES {
            return;
        }
        let below = match self.batches {
            0..2 => BELOW,
            _ => FAR_BELOW,
        };
        self.batches += 1;
        let range = (address.saturating_sub(below), address.saturating_add(ABOVE));
        let mut reads = ranges(vec![range]);
        memory.read(&mut reads);
        self.add(reads);
    }

    /// Reads one more batch.
    pub(super) fn read(&mut self, mut reads: Vec<MemoryRead>, memory: &mut dyn ProcessMemory) {
        memory.read(&mut reads);
        self.add(reads);
    }

    /// Reads the memory around a frame, but no page before it, which each takes a read. At the
    /// limit nothing is read.
    pub(super) fn read_near(&mut self, address: u64, memory: &mut dyn ProcessMemory) {
        if self.batches >= MAX_BATCHES {
            return;
        }
        self.batches += 1;
        let start = address
            .saturating_sub(NEAR_BELOW)
            .max(address - address % PAGE);
        let end = address.saturating_add(FRAME_BYTES as u64);
        let above = start
            .saturating_add(NEAR)
            .min((start - start % PAGE).saturating_add(PAGE));
        self.read(ranges(vec![(start, end.max(above))]), memory);
    }

    /// Returns true if no read has succeeded.
    pub(super) const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Copies bytes from an address, possibly of several pieces.
    pub(super) fn bytes<const LEN: usize>(&self, address: u64) -> Option<[u8; LEN]> {
        let mut bytes = [0; LEN];
        let mut done = 0;
        while done < LEN {
            let at = address.checked_add(done as u64)?;
            let piece = self.pieces.iter().find_map(|read| {
                let from = usize::try_from(at.checked_sub(read.address)?).ok()?;
                read.bytes.get(from..).filter(|rest| !rest.is_empty())
            })?;
            let len = piece.len().min(LEN - done);
            bytes
                .get_mut(done..done + len)?
                .copy_from_slice(piece.get(..len)?);
            done += len;
        }
        Some(bytes)
    }

    pub(super) fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }
}

/// Addresses by their last use, at most `MOST` of them.
#[derive(Debug, Default)]
pub(super) struct RecentAddresses<const MOST: usize> {
    addresses: VecDeque<u64>,
}

impl<const MOST: usize> RecentAddresses<MOST> {
    /// Returns the addresses, most recent first.
    pub(super) fn get(&mut self) -> &[u64] {
        self.addresses.make_contiguous()
    }

    /// Adds addresses, or moves them to the front.
    pub(super) fn add(&mut self, addresses: &[u64]) {
        self.addresses
            .retain(|address| !addresses.contains(address));
        for address in addresses.iter().rev().take(MOST) {
            self.addresses.push_front(*address);
        }
        self.addresses.truncate(MOST);
    }

    /// Removes the addresses for which `is_useful` returns false.
    pub(super) fn retain(&mut self, mut is_useful: impl FnMut(u64) -> bool) {
        self.addresses.retain(|address| is_useful(*address));
    }
}
