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
//! were copied (perf_event_open(2), "MMAP layout"). This module copies and checks sizes; what a record
//! means is not its business.

mod memory;

use crate::errno::Errno;
use memory::Memory;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// No record is longer: `header.size` has 16 bits.
pub const MAX_RECORD: usize = u16::MAX as usize + 1;

/// Bytes of a record header.
const HEADER: usize = 8;

/// The reader's end of a ring buffer.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    /// Own copy of `data_tail`, which nobody else writes.
    tail: u64,
}

/// What [`Ring::drain_into`] did.
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
    /// The kernel's: `EPERM` past the allowance `perf_event_mlock_kb`, `ENOMEM` without
    /// memory, `EINVAL` for a size that is no power of two.
    pub fn map(fd: BorrowedFd<'_>, data_bytes: usize) -> Result<Ring, Errno> {
        let memory = Memory::map(fd, data_bytes)?;
        let tail = memory.tail().load(Ordering::Relaxed);
        Ok(Ring { memory, tail })
    }

    /// Bytes of data the ring holds.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Bytes written by the kernel and not yet read.
    pub fn unread(&self) -> usize {
        let unread = self.head().wrapping_sub(self.tail);
        usize::try_from(unread).unwrap_or(usize::MAX)
    }

    fn head(&self) -> u64 {
        // Acquire: pairs with the kernel's barrier before it moves the head, so that
        // all bytes before the head can be seen.
        self.memory.head().load(Ordering::Acquire)
    }

    fn give_back(&mut self, tail: u64) {
        self.tail = tail;
        // Release: the copy out of the ring is done before the kernel may write there.
        self.memory.tail().store(tail, Ordering::Release);
    }

    /// Appends whole records to `out`, and gives their room back to the kernel.
    ///
    /// At most `limit` bytes are copied (and never fewer than one whole record, whatever the limit).
    /// A record that wraps comes out in one piece.
    pub fn drain_into(&mut self, out: &mut Vec<u8>, limit: usize) -> Drained {
        let head = self.head();
        let unread = head.wrapping_sub(self.tail);
        if unread == 0 {
            return Drained::default();
        }
        if unread > self.size() as u64 {
            self.give_back(head);
            return Drained {
                damaged: self.size(),
                ..Drained::default()
            };
        }
        let unread = unread as usize;
        let take = unread.min(limit.max(MAX_RECORD));
        let start = out.len();
        self.memory.copy(self.tail, take, out);
        let (whole, damage) = whole_records(&out[start..]);
        out.truncate(start + whole);
        // A record cut off by the limit is read next time; one cut off by the head
        // claims bytes that were never written.
        if damage || (take == unread && whole < take) {
            self.give_back(head);
            return Drained {
                copied: whole,
                left: 0,
                damaged: unread - whole,
            };
        }
        self.give_back(self.tail.wrapping_add(whole as u64));
        Drained {
            copied: whole,
            left: unread - whole,
            damaged: 0,
        }
    }

    /// Copies the oldest unread record into `out`, replacing what was there, without
    /// giving its room back. Says whether there was one.
    pub fn peek(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        let unread = self.unread();
        if unread < HEADER || unread > self.size() {
            return false;
        }
        self.memory.copy(self.tail, HEADER, out);
        let size = record_size(out);
        if size < HEADER || size > unread {
            return false;
        }
        out.clear();
        self.memory.copy(self.tail, size, out);
        true
    }
}

/// The size that a record's header states.
fn record_size(record: &[u8]) -> usize {
    usize::from(u16::from_ne_bytes([record[6], record[7]]))
}

/// How many bytes at the start of `bytes` are whole records, and whether a record with an
/// impossible size comes next.
fn whole_records(bytes: &[u8]) -> (usize, bool) {
    let mut at = 0;
    while let Some(record) = bytes.get(at..).filter(|rest| rest.len() >= HEADER) {
        let size = record_size(record);
        if size < HEADER || !size.is_multiple_of(8) {
            return (at, true);
        }
        if size > record.len() {
            break;
        }
        at += size;
    }
    (at, false)
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
