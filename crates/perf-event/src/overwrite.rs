//! Ring buffers that the kernel overwrites. They hold the latest records, and cost nothing until
//! they are read.

use crate::errno::Errno;
use crate::fd::PerfFd;
use crate::mapping::Memory;
use crate::ring::{MAX_RECORD, first_record, map, record_size, whole_records};
use rprof_records::{Endian, RawBytes, RawRecord};
use std::os::fd::BorrowedFd;

/// Ring buffer mapped read-only. When it is full, the kernel overwrites the oldest records.
///
/// The reader [follows](Self::follow) the kernel. It may fall behind by half of the ring buffer, or
/// by all but 64 KiB if that is more. Beyond that, it skips to the next new record: the start of
/// the oldest is unknown. [`BackwardRing`] has the latest records at any time.
#[derive(Debug)]
pub struct OverwriteRing {
    memory: Memory,
    position: u64,
}

/// Result of [`OverwriteRing::follow`], in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Bytes copied.
    pub copied: usize,
    /// Bytes overwritten before they were read, or invalid.
    pub missed: u64,
}

impl OverwriteRing {
    /// Maps the ring buffer of an event with `data_bytes` of data, a power of two of pages.
    ///
    /// # Errors
    /// Returns the errors of [`Ring::map`](crate::Ring::map).
    pub fn map(fd: BorrowedFd<'_>, data_bytes: usize) -> Result<OverwriteRing, Errno> {
        let memory = map(fd, data_bytes, false)?;
        let position = memory.head();
        Ok(OverwriteRing { memory, position })
    }

    /// Appends the records since the last call to `out`.
    pub fn follow(&mut self, out: &mut Vec<u8>) -> Followed {
        let head = self.memory.head();
        let before = out.len();
        let behind = head.wrapping_sub(self.position);
        let size = self.memory.size() as u64;
        if behind <= size {
            self.memory.copy_unsure(self.position, behind as usize, out);
        }
        let written = self.memory.head().wrapping_sub(self.position);
        // Records are written before the head moves, over copied bytes.
        let safe = size.saturating_sub(MAX_RECORD as u64).max(size / 2);
        if written > safe {
            out.truncate(before);
            let missed = std::mem::replace(&mut self.position, self.memory.head());
            let missed = self.position.wrapping_sub(missed);
            return Followed { copied: 0, missed };
        }
        let (whole, _) = whole_records(&RawBytes::from(&out[before..]));
        out.truncate(before + whole);
        self.position = head;
        Followed {
            copied: whole,
            missed: behind - whole as u64,
        }
    }
}

/// Ring buffer of an event with [`write_backward`](crate::Builder::write_backward), mapped
/// read-only. The kernel writes each record before the previous one, over the oldest. So the latest
/// records can be found at any time.
///
/// ```text
///   written first                                    0 ... | oldest
///   written next                          0 ... | newer | oldest
///   full: the oldest is overwritten     | newest | newer | old
///                                       ^ data_head, which only falls
/// ```
#[derive(Debug)]
pub struct BackwardRing {
    memory: Memory,
    taken: u64,
}

/// Copy of the records of a [`BackwardRing`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingSnapshot {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl BackwardRing {
    /// Maps the ring buffer of an event with `data_bytes` of data, a power of two of pages. The
    /// event must not have another mapping.
    ///
    /// # Errors
    /// Returns the errors of [`Ring::map`](crate::Ring::map).
    pub fn map(fd: BorrowedFd<'_>, data_bytes: usize) -> Result<BackwardRing, Errno> {
        let memory = map(fd, data_bytes, false)?;
        Ok(BackwardRing { memory, taken: 0 })
    }

    /// Returns the size of the ring's data in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Copies all records, even those returned by [`take`](Self::take). Pauses the event's output
    /// meanwhile ([`PerfFd::pause_output`]).
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn snapshot(&self, event: &PerfFd) -> Result<RingSnapshot, Errno> {
        event.pause_output(true)?;
        // The head counts down from zero.
        let head = self.memory.head();
        let snapshot = self.records(head, head.wrapping_neg());
        event.pause_output(false)?;
        Ok(snapshot)
    }

    /// Passes the records since the last call to `put`, oldest first. Skips overwritten ones.
    ///
    /// The caller should pause the output meanwhile ([`PerfFd::pause_output`]).
    pub fn take(&mut self, put: impl FnMut(RawBytes<'_>)) {
        let head = self.memory.head();
        let snapshot = self.records(head, self.taken.wrapping_sub(head));
        self.taken = head;
        snapshot.each_bytes().for_each(put);
    }

    fn records(&self, head: u64, bytes: u64) -> RingSnapshot {
        let size = self.size() as u64;
        let there = bytes.min(size);
        let mut copy = Vec::with_capacity(there as usize);
        self.memory.copy_unsure(head, there as usize, &mut copy);
        // Writes during the copy replaced the oldest records.
        let moved = head.wrapping_sub(self.memory.head());
        copy.truncate(size.saturating_sub(moved).min(there) as usize);
        RingSnapshot::of(copy)
    }
}

impl RingSnapshot {
    /// Indexes records in newest-first order. The last may be truncated.
    fn of(mut bytes: Vec<u8>) -> RingSnapshot {
        let mut starts = Vec::new();
        let mut at = 0;
        while let Some(size) = record_size(&RawBytes::from(bytes.get(at..).unwrap_or_default()))
            && at + size <= bytes.len()
        {
            starts.push(at);
            at += size;
        }
        bytes.truncate(at);
        starts.reverse();
        RingSnapshot { bytes, starts }
    }

    /// Returns the records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = RawRecord<'_>> {
        self.each_bytes()
            .filter_map(|bytes| RawRecord::parse(bytes, Endian::NATIVE))
    }

    fn each_bytes(&self) -> impl Iterator<Item = RawBytes<'_>> {
        let record = |start: &usize| first_record(&RawBytes::from(self.bytes.get(*start..)?));
        self.starts.iter().filter_map(record)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::{made_up, record};

    fn write(memory: &Memory, position: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            memory.poke((position as usize).wrapping_add(i) % memory.size(), *byte);
        }
    }

    #[test]
    fn who_keeps_up_misses_nothing() {
        let mut ring = OverwriteRing {
            memory: made_up(4096, 0),
            position: 0,
        };
        let mut head = 0_u64;
        for mark in 0..200 {
            let bytes = record(104, mark);
            write(&ring.memory, head, &bytes);
            head += 104;
            ring.memory.set_head(head);
            let mut out = Vec::new();
            let followed = ring.follow(&mut out);
            assert_eq!((followed.copied, followed.missed), (104, 0));
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn who_falls_behind_is_told_and_goes_on() {
        let mut ring = OverwriteRing {
            memory: made_up(4096, 0),
            position: 0,
        };
        ring.memory.set_head(10_000);
        let mut out = vec![7];
        let followed = ring.follow(&mut out);
        assert_eq!((followed.copied, followed.missed), (0, 10_000));
        let bytes = record(48, 9);
        write(&ring.memory, 10_000, &bytes);
        ring.memory.set_head(10_048);
        assert_eq!(ring.follow(&mut out).copied, 48);
        assert_eq!(out[1..], bytes);
        write(&ring.memory, 10_048, &[0xff; 16]);
        ring.memory.set_head(10_064);
        assert_eq!(ring.follow(&mut out).missed, 16);
    }

    #[test]
    fn the_latest_records_are_found_backward() {
        let mut ring = BackwardRing {
            memory: made_up(4096, 0),
            taken: 0,
        };
        let all = |ring: &BackwardRing| {
            let head = ring.memory.head();
            let snapshot = ring.records(head, head.wrapping_neg());
            let marks = snapshot.records().map(|raw| raw.body.to_cow()[0]);
            marks.collect::<Vec<u8>>()
        };
        let since = |ring: &mut BackwardRing| {
            let mut marks = Vec::new();
            ring.take(|record| marks.push(record.to_cow()[8]));
            marks
        };
        assert_eq!(all(&ring), []);
        let mut head = 0_u64;
        let mut put = |ring: &BackwardRing, marks: std::ops::Range<u8>| {
            for mark in marks {
                head = head.wrapping_sub(104);
                write(&ring.memory, head % 4096, &record(104, mark));
                ring.memory.set_head(head);
            }
        };
        put(&ring, 0..3);
        assert_eq!(all(&ring), [0, 1, 2]);
        assert_eq!(since(&mut ring), [0, 1, 2]);
        put(&ring, 3..4);
        assert_eq!(all(&ring), [0, 1, 2, 3]);
        assert_eq!(since(&mut ring), [3]);
        put(&ring, 4..200);
        let latest: Vec<u8> = (161..200).collect();
        assert_eq!(all(&ring), latest);
        assert_eq!(since(&mut ring), latest);
        assert_eq!(since(&mut ring), []);
    }
}
