//! Ring buffers that the kernel overwrites.

use crate::support::Word;
use rprof_perf_event::{AuxRing, BackwardRing, Builder, Errno, OverwriteRing, Ring};
use rprof_records::{Endian, RawBytes, RawRecord, Record, SampleLayout, SampleType};
use rprof_testing::needs;
use std::os::fd::AsFd;

/// Takes a sample of 16 bytes at each write, with its address.
fn sampled(word: &Word) -> Builder {
    let event = word.event().period(1).sample(SampleType::ADDR);
    event.disabled(false)
}

fn addresses(event: &Builder, mut bytes: &[u8]) -> Vec<u64> {
    let layout = SampleLayout::new(event.attr(), Endian::NATIVE);
    let mut found = Vec::new();
    while let Some(raw) = RawRecord::parse(RawBytes::from(bytes), Endian::NATIVE) {
        if let Record::Sample(sample) = Record::decode(&raw, Some(&layout)).unwrap() {
            found.push(sample.addr().unwrap());
        }
        bytes = &bytes[raw.size()..];
    }
    found
}

#[test]
fn a_ring_that_is_only_read_is_followed() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = sampled(&word);
    let fd = event.open_fd(None).unwrap();
    let mut ring = OverwriteRing::map(fd.as_fd(), 4096).unwrap();
    let address = word.breakpoint().address;
    for _ in 0..500 {
        word.write(50);
        let mut out = Vec::new();
        let followed = ring.follow(&mut out);
        assert_eq!((followed.copied, followed.missed), (50 * 16, 0));
        assert_eq!(addresses(&event, &out), [address; 50]);
    }
    word.write(1000);
    let mut out = Vec::new();
    let followed = ring.follow(&mut out);
    assert_eq!((followed.copied, followed.missed), (0, 16_000));
    word.write(3);
    assert_eq!(ring.follow(&mut out).copied, 3 * 16);
}

#[test]
fn the_latest_records_of_a_backward_ring_are_found() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let event = sampled(&one).write_backward(true);
    let fd = event.open_fd(None).unwrap();
    let ring = BackwardRing::map(fd.as_fd(), 4096).unwrap();
    assert!(ring.snapshot(&fd).unwrap().is_empty());
    one.write(5);
    assert_eq!(ring.snapshot(&fd).unwrap().len(), 5);
    one.write(10_000);
    let other = sampled(&two).write_backward(true).open_fd(None).unwrap();
    other.redirect_to(&fd).unwrap();
    two.write(2);
    let snapshot = ring.snapshot(&fd).unwrap();
    let layout = SampleLayout::new(event.attr(), Endian::NATIVE);
    let found: Vec<u64> = (snapshot.records())
        .filter_map(|raw| match Record::decode(&raw, Some(&layout)).unwrap() {
            Record::Sample(sample) => sample.addr(),
            _ => None,
        })
        .collect();
    // 256 samples of 16 bytes fit, perhaps with a LOST record.
    assert!((250..=256).contains(&found.len()), "{}", found.len());
    let (one, two) = (one.breakpoint().address, two.breakpoint().address);
    assert_eq!(found[found.len() - 3..], [one, two, two], "oldest first");
    assert_eq!(fd.reading().unwrap().value, 10_005);
}

#[test]
fn an_event_without_an_aux_area_says_so() {
    needs!(PerfEvents);
    let word = Word::new();
    let fd = sampled(&word).open_fd(None).unwrap();
    let ring = Ring::map(fd.as_fd(), 4096).unwrap();
    for map in [AuxRing::map, AuxRing::map_overwriting] {
        assert_eq!(map(&fd, &ring, 4096).unwrap_err(), Errno::OPNOTSUPP);
    }
    let positions = ring.control_page().positions();
    assert_eq!((positions.aux_offset, positions.aux_size), (8192, 4096));
}
