//! [`Snapshot`]: pieces of process memory, read for one sample.

use crate::{MemoryRead, ProcessMemory};

/// Maximum number of batches for the frames of one sample.
const MAX_BATCHES: u32 = 24;

/// Bytes read below a frame: its callers are there.
const WINDOW: u64 = 1024;

/// Bytes read above a frame: functions called meanwhile are there.
const ABOVE: u64 = 512;

/// The same when a stack has many frames.
const LARGE_WINDOW: u64 = 16 << 10;

const PAGE: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Snapshot {
    reads: Vec<MemoryRead>,
    batches: u32,
}

impl Snapshot {
    /// Reads the memory around frames with one call, between other reads. Returns these. At the
    /// limit of a sample nothing is read.
    pub(super) fn read(
        &mut self,
        frames: &[u64],
        (before, after): (Vec<MemoryRead>, Vec<MemoryRead>),
        memory: &mut dyn ProcessMemory,
    ) -> (Vec<MemoryRead>, Vec<MemoryRead>) {
        if self.batches >= MAX_BATCHES {
            return (before, after);
        }
        let window = match self.batches {
            0..2 => WINDOW,
            _ => LARGE_WINDOW,
        };
        self.batches += 1;
        let mut reads = before;
        let first = reads.len();
        for address in frames {
            // Unmapped memory may precede the page, and would fail the whole read.
            let page = address - address % PAGE;
            let next = page.saturating_add(PAGE);
            let start = address.saturating_sub(window);
            let end = address.saturating_add(ABOVE);
            let pieces = [(start.max(page), end.min(next)), (start, page), (next, end)];
            for (start, end) in pieces {
                if start < end {
                    reads.push(MemoryRead::new(start, (end - start) as usize));
                }
            }
        }
        let rest = reads.len();
        reads.extend(after);
        memory.read(&mut reads);
        let after = reads.split_off(rest);
        self.reads
            .extend(reads.drain(first..).filter(|read| read.is_read));
        self.reads.sort_unstable_by_key(|read| read.address);
        (reads, after)
    }

    /// Returns true if no read has succeeded.
    pub(super) const fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Copies bytes from an address, possibly of several pieces.
    pub(super) fn bytes<const LEN: usize>(&self, address: u64) -> Option<[u8; LEN]> {
        let mut bytes = [0; LEN];
        let mut done = 0;
        while done < LEN {
            let at = address.checked_add(done as u64)?;
            let piece = self.reads.iter().find_map(|read| {
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
}
