//! Overflows as signals.

use crate::support::{PATIENCE, Word};
use rprof_perf_event::{Builder, Errno, Overflow, OverflowCode, OverflowSignals, SignalSampler};
use rprof_records::{Record, SampleType};
use rprof_testing::needs;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Takes a sample at each write, with its address.
fn sampled(word: &Word) -> Builder {
    word.event().period(1).sample(SampleType::ADDR)
}

/// Runs on a separate thread, whose signal mask ends with it.
fn alone(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(test).join().unwrap());
}

#[test]
fn each_overflow_is_a_signal_until_the_last_hangs_up() {
    needs!(PerfEvents);
    alone(|| {
        let word = Word::new();
        let event = sampled(&word).open_fd(None).unwrap();
        let mut signals = OverflowSignals::realtime(4).unwrap();
        assert_eq!(signals.signal(), libc::SIGRTMIN() + 4);
        signals.watch(&event).unwrap();
        event.refresh(3).unwrap();
        let mut codes: Vec<OverflowCode> = Vec::new();
        while codes.last() != Some(&OverflowCode::HUP) {
            word.write(1);
            // Possibly later, from an interrupt.
            let overflow = signals.wait(Some(PATIENCE)).unwrap().expect("an overflow");
            assert_eq!(overflow.fd, event.as_fd().as_raw_fd());
            assert_eq!(overflow.signal, signals.signal());
            codes.push(overflow.code);
        }
        let before_last = &codes[..codes.len() - 1];
        assert!(
            before_last.iter().all(|code| *code == OverflowCode::IN),
            "{codes:?}"
        );
        word.write(100);
        let none: Option<Overflow> = signals.wait(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(none, None, "it is disabled");
    });
}

#[test]
fn a_receiver_leaves_no_signal_behind() {
    needs!(PerfEvents);
    alone(|| {
        let word = Word::new();
        let event = sampled(&word).disabled(false).open_fd(None).unwrap();
        let mut signals = OverflowSignals::io().unwrap();
        signals.watch(&event).unwrap();
        word.write(10);
        drop(signals);
        word.write(10);
        let mut signals = OverflowSignals::realtime(5).unwrap();
        signals.watch(&event).unwrap();
        word.write(10);
        drop(signals);
        word.write(10);
        assert_eq!(event.reading().unwrap().value, 40);
    });
    assert_eq!(OverflowSignals::realtime(200).unwrap_err(), Errno::INVAL);
}

#[test]
fn a_listener_takes_the_samples_of_its_caller() {
    needs!(PerfEvents);
    let word = Word::new();
    let sampler = SignalSampler::open(&sampled(&word), 64 << 10, 1 << 20).unwrap();
    word.write(5);
    sampler.fd().enable().unwrap();
    word.write(700);
    let samples = sampler.finish().unwrap();
    let address = word.breakpoint().address;
    let mut found = 0;
    for record in samples.records() {
        let Record::Sample(sample) = record.unwrap().record else {
            panic!("no sample");
        };
        assert_eq!(sample.addr(), Some(address));
        found += 1;
    }
    assert_eq!((found, samples.dropped()), (700, 0));
    assert!(samples.overflows() >= 1, "it was told by a signal");
    assert_eq!(samples.hang_ups(), 0);
}

#[test]
fn a_listener_keeps_no_more_than_it_may() {
    needs!(PerfEvents);
    let word = Word::new();
    let sampler = SignalSampler::open(&sampled(&word), 64 << 10, 160).unwrap();
    sampler.fd().enable().unwrap();
    word.write(100);
    let samples = sampler.finish().unwrap();
    assert_eq!((samples.records().count(), samples.dropped()), (10, 90));
    drop(SignalSampler::open(&sampled(&word), 64 << 10, 160).unwrap());
}
