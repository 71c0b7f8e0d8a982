//! [`AuxRing`]: the AUX area of an event, for hardware traces.

use crate::errno::Errno;
use crate::fd::PerfFd;
use crate::mapping::{Mapping, Memory};
use crate::page::word;
use crate::ring::Ring;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Reader's end of an AUX area (Linux 4.1): the bytes of a hardware trace such as Intel PT. AUX
/// records in the event's ring buffer describe them.
///
/// If the reader is too slow, the trace has gaps. The AUX record after a gap has the flag
/// `PERF_AUX_FLAG_TRUNCATED`.
#[derive(Debug)]
pub struct AuxRing {
    memory: Memory,
    tail: u64,
    overwritten: bool,
}

impl AuxRing {
    /// Maps an AUX area of `bytes`, a power of two of pages. `ring` must be the event's ring
    /// buffer. The trace stops while the area is full.
    ///
    /// # Errors
    /// Returns the kernel's error: `EOPNOTSUPP` if the event has no AUX area, `EINVAL` for an
    /// invalid size, `EPERM` above the limit `perf_event_mlock_kb`.
    pub fn map(event: &PerfFd, ring: &Ring, bytes: usize) -> Result<AuxRing, Errno> {
        AuxRing::map_as(event, ring, bytes, true)
    }

    /// Maps an AUX area that the hardware overwrites, for [`latest`](Self::latest). The trace never
    /// stops.
    ///
    /// # Errors
    /// Returns the errors of [`map`](Self::map).
    pub fn map_overwriting(event: &PerfFd, ring: &Ring, bytes: usize) -> Result<AuxRing, Errno> {
        AuxRing::map_as(event, ring, bytes, false)
    }

    fn map_as(event: &PerfFd, ring: &Ring, bytes: usize, consume: bool) -> Result<AuxRing, Errno> {
        let control = ring.memory().control();
        // After the ring's data.
        let offset = control.len() as u64;
        for (number, value) in [(word::AUX_OFFSET, offset), (word::AUX_SIZE, bytes as u64)] {
            let word = control.word(number).ok_or(Errno::INVAL)?;
            word.store(value, Ordering::Release);
        }
        let area = Mapping::of_fd(event.as_fd(), bytes, consume, offset)?;
        let counters = (control.clone(), word::AUX_HEAD, word::AUX_TAIL);
        let memory = Memory::new(counters, (area, 0, bytes)).ok_or(Errno::INVAL)?;
        Ok(AuxRing::new(memory, !consume))
    }

    fn new(memory: Memory, overwritten: bool) -> AuxRing {
        AuxRing {
            tail: memory.tail(),
            memory,
            overwritten,
        }
    }

    /// Returns the size of the area in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Returns the position in the trace of the first unread byte.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Returns the number of unread bytes, at most the area's size.
    pub fn unread(&self) -> usize {
        let unread = self.memory.head().wrapping_sub(self.tail);
        usize::try_from(unread).map_or(self.size(), |unread| unread.min(self.size()))
    }

    /// Moves up to `limit` unread bytes to `out`, which makes room for the hardware. Returns their
    /// number; 0 for an overwritten area.
    pub fn read_into(&mut self, out: &mut Vec<u8>, limit: usize) -> usize {
        if self.overwritten {
            return 0;
        }
        let head = self.memory.head();
        if head.wrapping_sub(self.tail) > self.size() as u64 {
            // No kernel should do this.
            self.tail = head;
            self.memory.set_tail(head);
            return 0;
        }
        let take = self.unread().min(limit);
        self.memory.bytes(self.tail, take).append_to(out);
        self.tail = self.tail.wrapping_add(take as u64);
        self.memory.set_tail(self.tail);
        take
    }

    /// Copies the latest bytes of the area, oldest first. Disable the event before.
    pub fn latest(&self) -> Vec<u8> {
        let head = self.memory.head();
        let size = self.size() as u64;
        // The head may be within a word.
        let end = head.next_multiple_of(8);
        let mut bytes = Vec::with_capacity(self.size());
        match head < size && !self.wrapped(head) {
            true => self.memory.copy_unsure(0, end as usize, &mut bytes),
            false => self
                .memory
                .copy_unsure(end.wrapping_sub(size), self.size(), &mut bytes),
        }
        if end != head && bytes.len() as u64 == end {
            bytes.truncate(head as usize);
        }
        bytes
    }

    /// Returns true if the area was filled once. Overwriting hardware may keep its head below its
    /// size.
    fn wrapped(&self, head: u64) -> bool {
        let mut rest = Vec::new();
        let end = head.next_multiple_of(8);
        let length = (self.size() as u64).saturating_sub(end) as usize;
        self.memory.copy_unsure(end, length, &mut rest);
        rest.iter().any(|byte| *byte != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area of 64 bytes after `written` bytes: their positions, modulo 251.
    fn area(written: u64, overwritten: bool) -> AuxRing {
        let control = Mapping::of_words([written, written.saturating_sub(64)]);
        let bytes = Mapping::of_words([0; 8]);
        let memory = Memory::new((control, 0, 1), (bytes, 0, 64)).unwrap();
        for number in 0..written {
            memory.poke(number as usize % 64, (number % 251) as u8);
        }
        AuxRing::new(memory, overwritten)
    }

    fn numbers(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|number| (number % 251) as u8).collect()
    }

    #[test]
    fn bytes_come_out_once_over_the_end() {
        let mut aux = area(100, false);
        assert_eq!((aux.size(), aux.unread()), (64, 64));
        let mut out = Vec::new();
        assert_eq!(aux.read_into(&mut out, 40), 40);
        assert_eq!(out, numbers(36..76));
        assert_eq!(aux.memory.tail(), 76);
        assert_eq!(aux.read_into(&mut out, 1000), 24);
        assert_eq!(out, numbers(36..100));
        assert_eq!(aux.read_into(&mut out, 1000), 0);
    }

    #[test]
    fn the_latest_bytes_are_copied_in_order() {
        assert_eq!(area(20, true).latest(), numbers(0..20));
        assert_eq!(area(200, true).latest(), numbers(136..200));
        let mut none = area(200, true);
        assert_eq!(none.read_into(&mut Vec::new(), 100), 0);
    }

    #[test]
    fn a_head_that_cannot_be_is_no_trace() {
        let mut aux = area(100, false);
        aux.memory.set_head(10_000);
        let mut out = Vec::new();
        assert_eq!((aux.read_into(&mut out, 100), aux.unread()), (0, 0));
    }
}
