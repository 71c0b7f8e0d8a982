//! A ring that the kernel overwrites, written from its end to its beginning.
//!
//! ```text
//!   written first                                    0 ... | oldest
//!   written next                          0 ... | newer | oldest
//!   full: the oldest is overwritten     | newest | newer | old
//!                                       ^ data_head, which only falls
//! ```
//!
//! Records begin at the head, the newest first, and so can be told apart though the oldest may be cut: from the
//! beginning of a ring that is written forward nobody could (`write_backward` in perf_event_open(2)). Mapped
//! without PROT_WRITE, so that the kernel does not wait for anybody to read.

use super::memory::Memory;
use super::{HEADER, first_record};
use crate::errno::Errno;
use rprof_records::RawBytes;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Ring of the last records of an event with [`AttrFlags::WRITE_BACKWARD`](rprof_records::AttrFlags::WRITE_BACKWARD).
#[derive(Debug)]
pub struct BackwardRing {
    memory: Memory,
    /// Head of the records that were taken last.
    taken: u64,
}

impl BackwardRing {
    /// Maps the ring of an event, which must not be mapped in another way: a control page and `data_bytes` of
    /// data, a power of two of pages.
    ///
    /// # Errors
    /// The kernel's, as for [`Ring::map`](super::Ring::map).
    pub fn map(fd: BorrowedFd<'_>, data_bytes: usize) -> Result<BackwardRing, Errno> {
        Ok(BackwardRing::new(Memory::map_read_only(fd, data_bytes)?))
    }

    pub(super) fn new(memory: Memory) -> BackwardRing {
        BackwardRing { memory, taken: 0 }
    }

    /// Size of the ring's data in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// Passes the records that came since the last call, and that are still there, to `put`, the oldest
    /// first.
    ///
    /// The kernel had better write nothing meanwhile
    /// ([`pause_output`](crate::PerfFd::pause_output)); what it overwrites all the same is left out.
    pub fn take(&mut self, mut put: impl FnMut(RawBytes<'_>)) {
        let head = self.head();
        let size = self.size() as u64;
        let there = self.taken.wrapping_sub(head).min(size);
        let copy = (self.memory.bytes(head, there as usize))
            .to_cow()
            .into_owned();
        // What was written while this was copied took the place of the oldest.
        let moved = head.wrapping_sub(self.head());
        let valid = (size.saturating_sub(moved)).min(there);
        self.taken = head;
        let mut rest = RawBytes::from(copy.get(..valid as usize).unwrap_or(&[]));
        let mut records = Vec::new();
        // The last one is cut where the ring has come round.
        while rest.len() >= HEADER
            && let Some(record) = first_record(&rest)
        {
            records.push(record);
            rest = rest.get_from(record.len()).unwrap_or(RawBytes::from(&[][..]));
        }
        records.into_iter().rev().for_each(&mut put);
    }

    fn head(&self) -> u64 {
        // Acquire: pairs with the kernel's barrier before it moves the head, so that all bytes behind it can
        // be seen.
        self.memory.head().load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Shared;
    use super::*;

    const SIZE: usize = 4096;

    /// Kernel's side of a ring.
    struct Kernel {
        ring: BackwardRing,
        head: u64,
    }

    impl Kernel {
        fn new() -> Kernel {
            Kernel {
                ring: BackwardRing::new(Memory::fake(Shared::new(SIZE))),
                head: 0,
            }
        }

        /// Writes a record of `size` bytes whose body begins with `number`.
        fn write(&mut self, number: u8, size: u16) {
            self.head = self.head.wrapping_sub(size.into());
            let mut record = vec![number; size.into()];
            record[..6].copy_from_slice(&[9, 0, 0, 0, 0, 0]);
            record[6..8].copy_from_slice(&size.to_ne_bytes());
            for (offset, byte) in (0u64..).zip(record) {
                let at = self.head.wrapping_add(offset) as usize % SIZE;
                self.ring.memory.poke(at, byte);
            }
            self.ring.memory.head().store(self.head, Ordering::Release);
        }

        /// Takes what there is, as the numbers of the records.
        fn take(&mut self) -> Vec<u8> {
            let mut numbers = Vec::new();
            self.ring.take(|record| {
                let bytes = record.to_cow();
                assert!(bytes[8..].iter().all(|byte| *byte == bytes[8]));
                numbers.push(bytes[8]);
            });
            numbers
        }
    }

    #[test]
    fn the_last_records_come_in_order() {
        let mut kernel = Kernel::new();
        assert_eq!(kernel.take(), []);
        for number in 1..=3 {
            kernel.write(number, 64);
        }
        assert_eq!(kernel.take(), [1, 2, 3]);
        assert_eq!(kernel.take(), [], "they are not taken twice");
        kernel.write(4, 104);
        assert_eq!(kernel.take(), [4]);
    }

    #[test]
    fn what_was_overwritten_is_not_there() {
        let mut kernel = Kernel::new();
        // 4096 bytes hold 20 whole records of 200 bytes, and a part of one more.
        for number in 0..=255 {
            kernel.write(number, 200);
        }
        let expected: Vec<u8> = (236..=255).collect();
        assert_eq!(kernel.take(), expected);
        for number in 0..=255 {
            kernel.write(number, 200);
        }
        assert_eq!(kernel.take(), expected, "nor what was taken before");
    }

    #[test]
    fn a_record_without_a_size_ends_what_is_read() {
        let mut kernel = Kernel::new();
        kernel.write(1, 64);
        kernel.write(2, 64);
        // The size of the older one.
        let at = kernel.head.wrapping_add(64) as usize % SIZE;
        kernel.ring.memory.poke(at + 6, 0);
        kernel.ring.memory.poke(at + 7, 0);
        assert_eq!(kernel.take(), [2]);
    }
}
