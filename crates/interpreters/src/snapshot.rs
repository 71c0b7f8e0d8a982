//! [`Snapshot`]: process memory read for one stack, in rounds.
//!
//! Objects lead to other objects, and each batch of reads takes long. So code reads objects through
//! a snapshot, which answers [`Fault::Unread`] for missing memory and notes the request. A round
//! tries all frames, then [`Snapshot::fetch`] reads all that was missing with one batch.

use rustc_hash::FxHashMap;

use crate::{MemoryRead, ProcessMemory};

/// Bytes per block. Blocks are aligned, so none crosses a page.
const BLOCK: usize = 256;

/// Maximum number of blocks of one stack.
const MAX_BLOCKS: usize = 4096;

/// Maximum number of blocks per batch.
const MAX_BATCH: usize = 256;

/// Maximum bytes of wide reads of one stack.
const MAX_WIDE: usize = 12 << 20;

/// Bytes of a wide read per batch.
const PART: usize = 256 << 10;

/// Reason why an object could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The memory has not been read yet: repeat after [`Snapshot::fetch`].
    Unread,
    /// The memory is unreadable, or its contents are no such object.
    Invalid,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Memory of one process, as far as it was read for one stack.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Blocks by address; `None` if unreadable.
    blocks: FxHashMap<u64, Option<Box<[u8; BLOCK]>>>,
    /// Long ranges by address and length.
    wide: FxHashMap<(u64, usize), Option<Vec<u8>>>,
    wanted: Vec<u64>,
    wanted_wide: Vec<(u64, usize)>,
    wide_left: usize,
    has_read: bool,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            blocks: FxHashMap::default(),
            wide: FxHashMap::default(),
            wanted: Vec::new(),
            wanted_wide: Vec::new(),
            wide_left: MAX_WIDE,
            has_read: false,
        }
    }
}

impl Snapshot {
    /// Returns true if any read succeeded.
    pub(crate) const fn has_read(&self) -> bool {
        self.has_read
    }

    /// Returns true if [`fetch`](Self::fetch) has something to read.
    pub(crate) const fn is_missing(&self) -> bool {
        !self.wanted.is_empty() || !self.wanted_wide.is_empty()
    }

    /// Returns `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self, avma: u64) -> Result<[u8; N]> {
        let mut found = [0; N];
        self.copy(avma, &mut found)?;
        Ok(found)
    }

    pub(crate) fn u64(&mut self, avma: u64) -> Result<u64> {
        self.bytes(avma).map(u64::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, avma: u64) -> Result<u32> {
        self.bytes(avma).map(u32::from_le_bytes)
    }

    pub(crate) fn u16(&mut self, avma: u64) -> Result<u16> {
        self.bytes(avma).map(u16::from_le_bytes)
    }

    /// Fills a buffer from consecutive blocks.
    pub(crate) fn copy(&mut self, avma: u64, into: &mut [u8]) -> Result<()> {
        avma.checked_add(into.len() as u64).ok_or(Fault::Invalid)?;
        let mut is_unread = false;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = avma.wrapping_add(done as u64);
            let within = (at % BLOCK as u64) as usize;
            let len = rest.len().min(BLOCK - within);
            match self.block(at - within as u64) {
                Ok(block) => {
                    let (Some(rest), Some(found)) =
                        (rest.get_mut(..len), block.get(within..within + len))
                    else {
                        return Err(Fault::Invalid);
                    };
                    rest.copy_from_slice(found);
                }
                Err(Fault::Unread) => is_unread = true,
                Err(Fault::Invalid) => return Err(Fault::Invalid),
            }
            done += len;
        }
        match is_unread {
            true => Err(Fault::Unread),
            false => Ok(()),
        }
    }

    fn block(&mut self, start: u64) -> Result<&[u8; BLOCK]> {
        if self.blocks.contains_key(&start) {
            let block = self.blocks.get(&start).and_then(Option::as_deref);
            return block.ok_or(Fault::Invalid);
        }
        if self.blocks.len() + self.wanted.len() >= MAX_BLOCKS {
            return Err(Fault::Invalid);
        }
        self.wanted.push(start);
        Err(Fault::Unread)
    }

    /// Returns a long range of bytes, read on its own.
    pub(crate) fn wide(&mut self, avma: u64, len: usize) -> Result<&[u8]> {
        let key = (avma, len);
        if !self.wide.contains_key(&key) {
            if !self.wanted_wide.contains(&key) {
                self.wide_left = self.wide_left.checked_sub(len).ok_or(Fault::Invalid)?;
                self.wanted_wide.push(key);
            }
            return Err(Fault::Unread);
        }
        let bytes = self.wide.get(&key).and_then(Option::as_deref);
        bytes.ok_or(Fault::Invalid)
    }

    /// Reads the missing memory. Returns false if none is missing.
    pub(crate) fn fetch(&mut self, memory: &mut dyn ProcessMemory) -> bool {
        self.wanted.sort_unstable();
        self.wanted.dedup();
        let is_missing = self.is_missing();
        for starts in std::mem::take(&mut self.wanted).chunks(MAX_BATCH) {
            let mut reads: Vec<_> = starts
                .iter()
                .map(|start| MemoryRead::new(*start, BLOCK))
                .collect();
            memory.read(&mut reads);
            for (start, read) in starts.iter().zip(&reads) {
                let block = read.get().and_then(|bytes| bytes.try_into().ok());
                self.has_read |= block.is_some();
                self.blocks.insert(*start, block.map(Box::new));
            }
        }
        for (avma, len) in std::mem::take(&mut self.wanted_wide) {
            let found = read_wide(memory, avma, len);
            self.wide.insert((avma, len), found);
        }
        is_missing
    }
}

fn read_wide(memory: &mut dyn ProcessMemory, avma: u64, len: usize) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    while found.len() < len {
        let at = avma.checked_add(found.len() as u64)?;
        let mut part = [MemoryRead::new(at, PART.min(len - found.len()))];
        memory.read(&mut part);
        found.extend_from_slice(part[0].get()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory up to a limit. Each byte is the low byte of its address.
    struct Counting {
        end: u64,
        batches: usize,
    }

    impl ProcessMemory for Counting {
        fn read(&mut self, reads: &mut [MemoryRead]) {
            self.batches += 1;
            for read in reads {
                let len = read.bytes.len() as u64;
                read.is_read = read
                    .address
                    .checked_add(len)
                    .is_some_and(|end| end <= self.end);
                for (offset, byte) in (0..).zip(&mut read.bytes) {
                    let at = read.address.wrapping_add(offset);
                    *byte = at as u8;
                }
            }
        }
    }

    #[test]
    fn one_batch_reads_all_that_a_round_missed() {
        let mut memory = Counting {
            end: 0x2000,
            batches: 0,
        };
        let mut snapshot = Snapshot::default();
        assert_eq!(snapshot.u64(0x1000), Err(Fault::Unread));
        assert_eq!(snapshot.u64(0x10fc), Err(Fault::Unread), "two blocks");
        assert_eq!(snapshot.u16(0x2000), Err(Fault::Unread));
        assert!(snapshot.fetch(&mut memory));
        assert_eq!(memory.batches, 1);
        assert_eq!(snapshot.u64(0x1000), Ok(0x0706_0504_0302_0100));
        assert_eq!(snapshot.u64(0x10fc), Ok(0x0302_0100_fffe_fdfc));
        assert_eq!(snapshot.u16(0x2000), Err(Fault::Invalid));
        assert_eq!(snapshot.u64(u64::MAX), Err(Fault::Invalid), "no address");
        assert!(!snapshot.fetch(&mut memory), "nothing is missing");
    }

    #[test]
    fn wide_reads_arrive_in_parts_within_a_limit() {
        let mut memory = Counting {
            end: 1 << 40,
            batches: 0,
        };
        let mut snapshot = Snapshot::default();
        assert_eq!(snapshot.wide(0x100, PART + 1), Err(Fault::Unread));
        assert_eq!(snapshot.wide(0, MAX_WIDE), Err(Fault::Invalid));
        snapshot.fetch(&mut memory);
        assert_eq!(memory.batches, 2);
        let bytes = snapshot.wide(0x100, PART + 1).expect("read");
        assert_eq!((bytes.len(), bytes[PART]), (PART + 1, 0));
    }
}
