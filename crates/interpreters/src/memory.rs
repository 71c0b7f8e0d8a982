//! [`ProcessMemory`]: reads of a process's memory, in batches.

use std::time::Duration;

/// One read of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRead {
    /// Address (AVMA) of the first byte.
    pub address: u64,
    /// Buffer, as long as the read.
    pub bytes: Vec<u8>,
    /// True once all bytes were read.
    pub is_read: bool,
}

impl MemoryRead {
    /// Requests `len` bytes.
    #[must_use]
    pub fn new(address: u64, len: usize) -> Self {
        Self {
            address,
            bytes: vec![0; len],
            is_read: false,
        }
    }

    /// Returns the bytes if the read succeeded.
    #[must_use]
    pub fn get(&self) -> Option<&[u8]> {
        self.is_read.then_some(&self.bytes[..])
    }

    /// Returns the little-endian word at an offset, if it was read.
    #[must_use]
    pub fn u64(&self, offset: usize) -> Option<u64> {
        let bytes = self.get()?.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Returns the little-endian half word at an offset, if it was read.
    #[must_use]
    pub fn u32(&self, offset: usize) -> Option<u32> {
        let bytes = self.get()?.get(offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }
}

/// Memory of a running process, which may change between and during reads.
pub trait ProcessMemory {
    /// Reads a batch, in order. Each call takes as long as many reads, so callers collect reads.
    /// Adjacent reads of one page with ascending addresses may be of one moment. Implementors may
    /// limit the length and the number of reads, and leave the rest unread.
    fn read(&mut self, reads: &mut [MemoryRead]);

    /// Returns the duration of the last batch, without the wait for its begin. The memory may have
    /// changed meanwhile.
    fn duration(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the time when the last batch began, in nanoseconds of the clock of
    /// [`Stack::time`](crate::Stack::time). The batch is as good for each earlier sample. 0 if
    /// unknown.
    fn time(&self) -> u64 {
        0
    }

    /// Returns the number of a thread as the process itself sees it: in a container it has another one.
    fn number_inside(&mut self, thread: u64) -> u64 {
        thread
    }

    /// Returns true if the last batches were reads of the process, and not of another one that got
    /// its number. Results of a [`Watcher`](crate::Watcher) do not count without it.
    fn is_confirmed(&self) -> bool {
        true
    }
}
