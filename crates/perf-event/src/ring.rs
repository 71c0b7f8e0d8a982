//! One ring buffer, written by the kernel and read by one thread.
//!
//! ```text
//!   fd --mmap--> [ control page | data, 2^n pages                       ]
//!                  data_head: bytes the kernel ever wrote
//!                  data_tail: bytes this side is done with
//!
//!   0 ........ tail ======= head ........ size       unread bytes: tail..head,
//!   0 ==== head .............. tail ====== size      each position modulo size
//! ```
//!
//! Both counters only grow. Reading `data_head` with acquire order makes every byte before it
//! visible. Storing `data_tail` with release order returns bytes only after they were copied
//! (perf_event_open(2), "MMAP layout"). `rprof-records` decodes records.

use crate::errno::Errno;
use crate::mapping::{Mapping, Memory};
use crate::page::{ControlPage, word};
use rprof_records::{Endian, RawBytes};
use rustix::param::page_size;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Exclusive maximum of a record's length in bytes: `header.size` has 16 bits.
pub const MAX_RECORD: usize = u16::MAX as usize + 1;

/// Size of a record header in bytes.
const HEADER: usize = 8;

/// Reader's end of a ring buffer. It may move between threads, but one thread reads at a time.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    tail: u64,
}

/// Result of [`Ring::drain_into`] and [`Ring::drain_with`], in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Bytes copied.
    pub copied: usize,
    /// Unread bytes beyond the limit.
    pub left: usize,
    /// Bytes dropped because a record's size was invalid: everything up to the head.
    pub damaged: usize,
}

impl Ring {
    /// Maps the ring buffer of an event: a control page and `data_bytes` of data.
    ///
    /// `data_bytes` is a power of two of pages (perf_event_open(2)).
    ///
    /// # Errors
    /// Returns the kernel's error: `EPERM` above the limit `perf_event_mlock_kb`, `ENOMEM` without
    /// memory, `EINVAL` for a size that is not a power of two.
    /// [`MapRingError`](crate::MapRingError) explains them.
    pub fn map(fd: BorrowedFd<'_>, data_bytes: usize) -> Result<Ring, Errno> {
        let memory = map(fd, data_bytes, true)?;
        let tail = memory.tail();
        Ok(Ring { memory, tail })
    }

    /// Returns the ring's control page.
    pub fn control_page(&self) -> ControlPage {
        ControlPage::of(self.memory.control().clone())
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the size of the data in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Returns the number of bytes written but not yet drained.
    pub fn unread(&self) -> usize {
        let unread = self.head().wrapping_sub(self.tail);
        usize::try_from(unread).unwrap_or(usize::MAX)
    }

    fn head(&self) -> u64 {
        self.memory.head()
    }

    fn give_back(&mut self, tail: u64) {
        self.tail = tail;
        self.memory.set_tail(tail);
    }

    /// Moves whole records to `out`, which makes room for the kernel.
    ///
    /// Copies at most `limit` bytes, or 64 KiB if that is more, the maximum of a record. A record
    /// that wraps around comes out in one piece.
    pub fn drain_into(&mut self, out: &mut Vec<u8>, limit: usize) -> Drained {
        let unread = match self.readable() {
            Ok(0) => return Drained::default(),
            Ok(unread) => unread,
            Err(damaged) => return damaged,
        };
        let take = unread.min(limit.max(MAX_RECORD));
        let bytes = self.memory.bytes(self.tail, take);
        let (whole, damage) = whole_records(&bytes);
        bytes
            .get(0..whole)
            .iter()
            .for_each(|whole| whole.append_to(out));
        // The next call reads a record cut by the limit. One cut by the head claims unwritten
        // bytes.
        self.done(unread, whole, damage || (take == unread && whole < take))
    }

    /// Passes whole records to `put`, and frees the room of those accepted. Stops when `put`
    /// returns false. Does not allocate.
    pub fn drain_with(&mut self, mut put: impl FnMut(RawBytes<'_>) -> bool) -> Drained {
        let unread = match self.readable() {
            Ok(unread) => unread,
            Err(damaged) => return damaged,
        };
        let mut rest = self.memory.bytes(self.tail, unread);
        let mut damage = false;
        while !rest.is_empty() {
            let Some(record) = first_record(&rest) else {
                damage = true;
                break;
            };
            if !put(record) {
                break;
            }
            rest = rest.get_from(record.len()).unwrap_or(rest);
        }
        let taken = unread - rest.len();
        self.done(unread, taken, damage)
    }

    /// Returns the number of readable bytes. If the head is invalid, drops all of them.
    fn readable(&mut self) -> Result<usize, Drained> {
        let head = self.head();
        let unread = head.wrapping_sub(self.tail);
        if unread > self.size() as u64 {
            self.give_back(head);
            return Err(Drained {
                damaged: self.size(),
                ..Drained::default()
            });
        }
        Ok(unread as usize)
    }

    fn done(&mut self, unread: usize, copied: usize, damage: bool) -> Drained {
        let left = unread - copied;
        let gone = if damage { unread } else { copied };
        self.give_back(self.tail.wrapping_add(gone as u64));
        Drained {
            copied,
            left: if damage { 0 } else { left },
            damaged: if damage { left } else { 0 },
        }
    }

    /// Returns the oldest unread record.
    pub fn peek(&self) -> Option<RawBytes<'_>> {
        let unread = self.unread();
        if unread > self.size() {
            return None;
        }
        first_record(&self.memory.bytes(self.tail, unread))
    }
}

pub(crate) fn map(fd: BorrowedFd<'_>, data_bytes: usize, writable: bool) -> Result<Memory, Errno> {
    let page = page_size();
    if !data_bytes.is_power_of_two() || data_bytes < page {
        return Err(Errno::INVAL);
    }
    let mapping = Mapping::of_fd(fd, page + data_bytes, writable, 0)?;
    // Before Linux 4.1: after the first page.
    let said = |number| mapping.load(number, Ordering::Relaxed) as usize;
    let (start, size) = match (said(word::DATA_OFFSET), said(word::DATA_SIZE)) {
        (_, 0) => (page, data_bytes),
        said => said,
    };
    let control = (mapping.clone(), word::DATA_HEAD, word::DATA_TAIL);
    Memory::new(control, (mapping, start, size)).ok_or(Errno::INVAL)
}

/// Returns the size in a record's header; `None` without a header, or if it is invalid.
pub(crate) fn record_size(bytes: &RawBytes<'_>) -> Option<usize> {
    let size = usize::from(bytes.get(0..HEADER)?.u16(6, Endian::NATIVE)?);
    (size >= HEADER && size.is_multiple_of(8)).then_some(size)
}

pub(crate) fn first_record<'a>(bytes: &RawBytes<'a>) -> Option<RawBytes<'a>> {
    bytes.get(0..record_size(bytes)?)
}

/// Returns the length of whole records at the start, and whether one of invalid size follows.
pub(crate) fn whole_records(bytes: &RawBytes<'_>) -> (usize, bool) {
    let mut at = 0;
    while let Some(rest) = bytes.get_from(at).filter(|rest| rest.len() >= HEADER) {
        match record_size(&rest) {
            None => return (at, true),
            Some(size) if size > rest.len() => break,
            Some(size) => at += size,
        }
    }
    (at, false)
}

#[cfg(test)]
#[path = "ring/tests.rs"]
pub(crate) mod tests;
