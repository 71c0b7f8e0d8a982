//! Wrap-around on plain memory, with a writer that behaves like the kernel.

use super::*;
use proptest::prelude::*;

fn ring(size: usize, at: u64) -> Ring {
    Ring {
        memory: made_up(size, at),
        tail: at,
    }
}

pub(crate) fn made_up(size: usize, at: u64) -> Memory {
    let counters = Mapping::of_words([at, at]);
    let area = Mapping::of_words(vec![0xEEEE_EEEE_EEEE_EEEE; size / 8]);
    Memory::new((counters, 0, 1), (area, 0, size)).unwrap()
}

pub(crate) fn record(size: u16, mark: u8) -> Vec<u8> {
    let mut bytes = vec![mark; usize::from(size).max(8)];
    bytes[..4].copy_from_slice(&9u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&2u16.to_ne_bytes());
    bytes[6..8].copy_from_slice(&size.to_ne_bytes());
    bytes
}

impl Ring {
    /// Returns false, without writing, if there is no room.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let head = self.memory.head();
        let tail = self.memory.tail();
        if (head - tail) as usize + bytes.len() > self.size() {
            return false;
        }
        for (i, byte) in bytes.iter().enumerate() {
            let at = (head as usize + i) % self.size();
            self.memory.poke(at, *byte);
        }
        let head = head + bytes.len() as u64;
        self.memory.set_head(head);
        true
    }
}

#[test]
fn an_empty_ring_gives_nothing() {
    let mut ring = ring(4096, 0);
    let mut out = Vec::new();
    assert_eq!(ring.drain_into(&mut out, 1 << 20), Drained::default());
    assert_eq!(ring.peek(), None);
}

#[test]
fn a_record_that_wraps_comes_out_whole() {
    let mut ring = ring(4096, 3 * 4096 - 8);
    let wrapped = record(64, 7);
    assert!(ring.write(&wrapped));
    let mut out = vec![1, 2, 3];
    assert_eq!(ring.peek(), Some(RawBytes::from(&*wrapped)));
    let drained = ring.drain_into(&mut out, 1 << 20);
    assert_eq!(drained.copied, 64);
    assert_eq!(out[..3], [1, 2, 3], "what was in the buffer stays");
    assert_eq!(out[3..], wrapped);
    assert_eq!(ring.unread(), 0);
    assert_eq!(ring.memory.tail(), 3 * 4096 + 56);
}

#[test]
fn a_full_ring_is_read_to_the_last_byte() {
    let mut ring = ring(4096, 4096 * 5 + 1032);
    for mark in 0..64 {
        assert!(ring.write(&record(64, mark)));
    }
    assert!(!ring.write(&record(8, 0)), "full");
    let mut out = Vec::new();
    assert_eq!(ring.drain_into(&mut out, 1 << 20).copied, 4096);
    assert!(ring.write(&record(8, 0)), "room again");
}

#[test]
fn the_limit_cuts_between_records() {
    let mut ring = ring(1 << 18, 0);
    for mark in 0..4 {
        assert!(ring.write(&record(40_000, mark)));
    }
    let mut out = Vec::new();
    let drained = ring.drain_into(&mut out, 100_000);
    assert_eq!((drained.copied, drained.left), (80_000, 80_000));
    let drained = ring.drain_into(&mut out, 0);
    assert_eq!((drained.copied, drained.left), (40_000, 40_000));
}

#[test]
fn impossible_sizes_end_in_resynchronising() {
    for bad in [0, 4, 7, 12, 4095] {
        let mut ring = ring(4096, 0);
        assert!(ring.write(&record(16, 1)));
        let mut lie = record(24, 2);
        lie[6..8].copy_from_slice(&u16::to_ne_bytes(bad));
        assert!(ring.write(&lie));
        let mut out = Vec::new();
        let drained = ring.drain_into(&mut out, 1 << 20);
        assert_eq!((drained.copied, drained.damaged), (16, 24), "size {bad}");
        assert!(ring.write(&record(32, 3)), "works on");
        assert_eq!(ring.drain_into(&mut out, 1 << 20).copied, 32);
    }
}

#[test]
fn a_record_that_reaches_past_the_head_is_damage() {
    let mut ring = ring(4096, 0);
    let mut lie = record(24, 2);
    lie[6..8].copy_from_slice(&u16::to_ne_bytes(800));
    assert!(ring.write(&lie));
    assert_eq!(ring.peek(), None);
    let drained = ring.drain_into(&mut Vec::new(), 1 << 20);
    assert_eq!((drained.copied, drained.damaged), (0, 24));
}

#[test]
fn a_head_beyond_the_size_is_damage() {
    let mut ring = ring(4096, 0);
    ring.memory.set_head(4104);
    assert_eq!(ring.peek(), None);
    assert_eq!(ring.drain_into(&mut Vec::new(), 64).damaged, 4096);
    assert_eq!(ring.unread(), 0);
}

proptest! {
    /// Every record comes out once, in order and whole, for any writes, reads and limits.
    #[test]
    fn everything_comes_out_once_and_in_order(
        start in 0u64..1 << 20,
        one_by_one in any::<bool>(),
        steps in prop::collection::vec((1u16..600, any::<bool>(), 0usize..3000), 1..200),
    ) {
        let mut ring = ring(4096, start * 8);
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for (i, (words, reads, limit)) in steps.into_iter().enumerate() {
            let bytes = record((words % 64 + 1) * 8, i as u8);
            if ring.write(&bytes) {
                written.extend_from_slice(&bytes);
            } else {
                prop_assert!(ring.unread() + bytes.len() > 4096);
            }
            if reads {
                let peeked = ring.peek().map(|record| record.to_cow().into_owned());
                let before = read.len();
                let drained = match one_by_one {
                    true => ring.drain_with(|record| {
                        let fits = read.len() == before || record.len() + read.len() - before <= limit;
                        if fits {
                            record.append_to(&mut read);
                        }
                        fits
                    }),
                    false => ring.drain_into(&mut read, limit),
                };
                prop_assert_eq!(drained.damaged, 0);
                prop_assert_eq!(drained.left, ring.unread());
                prop_assert_eq!(peeked.is_some(), drained.copied > 0);
                prop_assert!(read[before..].starts_with(&peeked.unwrap_or_default()));
            }
        }
        ring.drain_into(&mut read, 1 << 20);
        prop_assert!(read == written);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 8..4096),
        one_by_one in any::<bool>(),
    ) {
        let mut ring = ring(4096, 4000);
        let whole = bytes.len() / 8 * 8;
        prop_assert!(ring.write(&bytes[..whole]));
        let first = ring.peek().map(|record| record.len());
        let mut taken = Vec::new();
        let drained = match one_by_one {
            true => ring.drain_with(|record| {
                taken.push(record.len());
                true
            }),
            false => ring.drain_into(&mut Vec::new(), 1 << 20),
        };
        prop_assert_eq!(drained.copied + drained.damaged, whole);
        if one_by_one {
            prop_assert_eq!(taken.first().copied(), first);
            prop_assert_eq!(taken.iter().sum::<usize>(), drained.copied);
        }
        prop_assert_eq!(ring.unread(), 0);
    }
}
