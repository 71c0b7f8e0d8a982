//! One ring buffer that the kernel writes and one thread reads.
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
//! Both counters only grow. Reading `data_head` with acquire order makes every byte before
//! it visible; storing `data_tail` with release order gives the bytes back only after they
//! were copied (perf_event_open(2), "MMAP layout"). This module copies bytes and checks sizes;
//! `rprof-records` decodes records.

use crate::errno::Errno;
use crate::mapping::{Mapping, Memory};
use crate::page::{ControlPage, word};
use rprof_records::{Endian, RawBytes};
use rustix::param::page_size;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Upper bound for the length of a record in bytes: `header.size` has 16 bits.
pub const MAX_RECORD: usize = u16::MAX as usize + 1;

/// Bytes of a record header.
const HEADER: usize = 8;

/// Reader's end of a ring buffer. It may move between threads; one thread reads at a time.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    /// Copy of `data_tail`, which nobody else writes.
    tail: u64,
}

/// Result of [`Ring::drain_into`] and [`Ring::drain_with`], in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Bytes copied out.
    pub copied: usize,
    /// Unread bytes that were there, but did not fit under the limit.
    pub left: usize,
    /// Bytes thrown away because a record's size was impossible. What follows such
    /// a record cannot be told apart, so everything up to the head goes.
    pub damaged: usize,
}

impl Ring {
    /// Maps the ring of an event: a control page and `data_bytes` of data.
    ///
    /// `data_bytes` is a power of two of pages (perf_event_open(2)).
    ///
    /// # Errors
    /// The kernel's: `EPERM` past the allowance `perf_event_mlock_kb`, `ENOMEM` without memory,
    /// `EINVAL` for a size that is no power of two. [`MapRingError`](crate::MapRingError)
    /// explains them.
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

    /// Size of the ring's data in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Number of bytes that the kernel wrote and that are not yet drained.
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

    /// Appends whole records to `out`, and gives their room back to the kernel.
    ///
    /// At most `limit` bytes are copied, or 64 KiB if that is more: a record never exceeds that.
    /// A record that wraps comes out in one piece.
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
        // A record cut off by the limit is read next time; one cut off by the head
        // claims bytes that were never written.
        self.done(unread, whole, damage || (take == unread && whole < take))
    }

    /// Passes whole records, one after another, to `put`, and gives the room of those that it took
    /// back to the kernel. Stops at the first for which `put` returns false. Allocates nothing.
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

    /// Returns how many bytes may be read. Where the head is impossible, gives all of them up.
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

    /// Gives back `copied` of `unread` bytes, and with `damage` the rest as well.
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

    /// Returns the oldest unread record, if there is one.
    pub fn peek(&self) -> Option<RawBytes<'_>> {
        let unread = self.unread();
        if unread > self.size() {
            return None;
        }
        first_record(&self.memory.bytes(self.tail, unread))
    }
}

/// Maps a control page and `data_bytes` of data behind it.
pub(crate) fn map(fd: BorrowedFd<'_>, data_bytes: usize, writable: bool) -> Result<Memory, Errno> {
    let page = page_size();
    if !data_bytes.is_power_of_two() || data_bytes < page {
        return Err(Errno::INVAL);
    }
    let mapping = Mapping::of_fd(fd, page + data_bytes, writable, 0)?;
    // Kernels before 4.1 do not say where the data begins: behind the first page.
    let said = |number| mapping.load(number, Ordering::Relaxed) as usize;
    let (start, size) = match (said(word::DATA_OFFSET), said(word::DATA_SIZE)) {
        (_, 0) => (page, data_bytes),
        said => said,
    };
    let control = (mapping.clone(), word::DATA_HEAD, word::DATA_TAIL);
    Memory::new(control, (mapping, start, size)).ok_or(Errno::INVAL)
}

/// Returns the size in a record's header; `None` without a header, or if it is impossible.
pub(crate) fn record_size(bytes: &RawBytes<'_>) -> Option<usize> {
    let size = usize::from(bytes.get(0..HEADER)?.u16(6, Endian::NATIVE)?);
    (size >= HEADER && size.is_multiple_of(8)).then_some(size)
}

/// Returns the record that `bytes` begin with, if it is whole.
pub(crate) fn first_record<'a>(bytes: &RawBytes<'a>) -> Option<RawBytes<'a>> {
    bytes.get(0..record_size(bytes)?)
}

/// Returns how many bytes at the start of `bytes` are whole records, and whether a record with an
/// impossible size follows them.
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
