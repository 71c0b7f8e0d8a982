//! Single records of ring buffers.

use crate::fixture::Writers;
use crate::support::{PATIENCE, Word};
use rprof_perf_event::{
    Breakpoint, BreakpointAccess, Builder, Clock, Next, ProcessSampler, RecordDecoder, SampleError,
    Sampler, Software,
};
use rprof_records::{Record, SampleType};
use rprof_testing::needs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

/// Size of the ring buffer's data.
const RING: usize = 64 << 10;

/// Takes a sample at each write, with its address.
fn sampled(word: &Word) -> Builder {
    let fields = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::ADDR;
    word.event().period(1).sample(fields)
}

#[track_caller]
fn next_address(sampler: &mut Sampler) -> Option<(usize, u64)> {
    match sampler.next(Some(Duration::ZERO)).unwrap() {
        Next::Record(next) => match next.record {
            Record::Sample(sample) => Some((next.event, sample.addr().unwrap())),
            other => panic!("no sample: {other:?}"),
        },
        _ => None,
    }
}

#[test]
fn each_write_is_a_sample_in_order() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let mut sampler = Sampler::open(&sampled(&one).disabled(false), RING).unwrap();
    assert_eq!(sampler.add(&sampled(&two).disabled(false)).unwrap(), 1);
    let mut expected = Vec::new();
    for round in 0..20 {
        let (number, word) = [(0, &one), (1, &two)][round % 2];
        word.write(2);
        expected.extend([(number, word.breakpoint().address); 2]);
    }
    let found: Vec<_> = std::iter::from_fn(|| next_address(&mut sampler)).collect();
    assert_eq!(found, expected);
    assert_eq!(sampler.fds().len(), 2);
}

#[test]
fn a_ring_is_consumed_over_its_end() {
    needs!(PerfEvents);
    let word = Word::new();
    let mut sampler = Sampler::open(&sampled(&word).disabled(false), 4096).unwrap();
    // 102 samples of 40 bytes fit.
    for _ in 0..30 {
        word.write(50);
        let mut found = 0;
        while let Some((_, address)) = next_address(&mut sampler) {
            assert_eq!(address, word.breakpoint().address);
            found += 1;
        }
        assert_eq!(found, 50);
    }
}

#[test]
fn what_does_not_fit_is_told_as_lost() {
    needs!(PerfEvents);
    let word = Word::new();
    let mut sampler = Sampler::open(&sampled(&word).disabled(false), 4096).unwrap();
    word.write(1000);
    let mut found = 0;
    while next_address(&mut sampler).is_some() {
        found += 1;
    }
    // The kernel writes LOST with the next sample that fits.
    word.write(1);
    let mut lost = 0;
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
        match next.record {
            Record::Lost(record) => lost += record.lost,
            Record::Sample(_) => found += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 0);
    assert_eq!(found + lost, 1001);
}

#[test]
fn events_that_share_a_ring_need_ids() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let plain = one.event().period(1).sample(SampleType::IP);
    let mut sampler = Sampler::open(&plain, RING).unwrap();
    let error = sampler.add(&sampled(&two)).unwrap_err();
    assert!(
        matches!(error, SampleError::NotIdentified { .. }),
        "{error:?}"
    );
}

#[test]
fn a_reader_is_woken_after_samples_or_bytes() {
    needs!(PerfEvents);
    for wakes in [
        |event: Builder| event.wake_after_samples(3),
        |event: Builder| event.wake_after_bytes(100),
    ] {
        let word = Word::new();
        let (word, (go, wait)) = (&*word, std::sync::mpsc::channel::<i32>());
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                    .unwrap();
                while wait.recv().is_ok() {
                    word.write(3);
                }
            });
            let event = wakes(sampled(word).disabled(false)).thread(told.recv().unwrap());
            let mut sampler = Sampler::open(&event, RING).unwrap();
            let none = sampler.next(Some(Duration::from_millis(1))).unwrap();
            assert!(matches!(none, Next::TimedOut), "{none:?}");
            go.send(1).unwrap();
            let mut fds = [PollFd::new(sampler.fd(), PollFlags::IN)];
            let patience = Timespec::try_from(PATIENCE).unwrap();
            assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "it is woken");
            assert!(fds[0].revents().contains(PollFlags::IN));
            for _ in 0..3 {
                let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() else {
                    panic!("no record");
                };
                assert!(matches!(next.record, Record::Sample(_)));
            }
            drop(go);
        });
    }
}

#[test]
fn what_came_without_a_wake_up_is_found_when_the_time_is_over() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = sampled(&word).wake_after_samples(1000).disabled(false);
    let mut sampler = Sampler::open(&event, RING).unwrap();
    word.write(1);
    let next = sampler.next(Some(Duration::ZERO)).unwrap();
    assert!(matches!(next, Next::Record(_)), "{next:?}");
}

fn foreign(writers: &Writers) -> Builder {
    let breakpoint = Breakpoint {
        address: writers.address,
        length: 8,
        access: BreakpointAccess::WRITE,
    };
    let fields = SampleType::IDENTIFIER | SampleType::TID | SampleType::ADDR;
    (Builder::breakpoint(breakpoint)
        .exclude_kernel(true)
        .period(1))
    .sample(fields)
    .wake_after_samples(1)
}

#[test]
fn the_end_of_what_is_watched_is_told() {
    needs!(PerfEvents);
    let mut writers = Writers::start();
    let event = foreign(&writers)
        .thread(writers.child.id() as i32)
        .disabled(false);
    let mut sampler = Sampler::open(&event, RING).unwrap();
    writers.go();
    writers.end();
    let mut found = 0;
    loop {
        match sampler.next(Some(PATIENCE)).unwrap() {
            Next::Record(_) => found += 1,
            Next::Ended => break,
            Next::TimedOut => panic!("its end was not told"),
        }
    }
    assert_eq!(found, 234, "of its first thread");
}

#[test]
fn all_threads_of_a_process_are_sampled() {
    needs!(PerfEvents);
    let mut writers = Writers::start();
    let pid = writers.child.id();
    let mut sampler = ProcessSampler::open(pid, &foreign(&writers), 128 << 10).unwrap();
    assert_eq!(sampler.threads(), 1);
    sampler.enable().unwrap();
    let none = sampler.next(Some(Duration::from_millis(1))).unwrap();
    assert!(matches!(none, Next::TimedOut), "{none:?}");
    writers.go();
    writers.end();
    let mut threads = std::collections::BTreeMap::new();
    loop {
        match sampler.next(Some(PATIENCE)).unwrap() {
            Next::Record(next) => {
                let Record::Sample(sample) = next.record else {
                    panic!("no sample: {next:?}");
                };
                assert_eq!(sample.pid(), Some(pid as i32));
                *threads.entry(sample.tid().unwrap()).or_insert(0) += 1;
            }
            Next::Ended => break,
            Next::TimedOut => panic!("its end was not told"),
        }
    }
    assert_eq!(threads.remove(&(pid as i32)), Some(234));
    assert_eq!(threads.into_values().collect::<Vec<_>>(), [1000; 3]);
    let gone = ProcessSampler::open(pid, &Builder::software(Software::DUMMY), RING).unwrap_err();
    assert!(gone.to_string().contains("ESRCH"), "{gone}");
}

#[test]
fn times_are_those_of_the_clock_that_was_chosen() {
    needs!(PerfEvents);
    use rustix::time::{ClockId, clock_gettime};
    for (clock, id) in [
        (Clock::MONOTONIC, ClockId::Monotonic),
        (Clock::MONOTONIC_RAW, ClockId::MonotonicRaw),
        (Clock::BOOTTIME, ClockId::Boottime),
        (Clock::TAI, ClockId::Realtime),
        (Clock::REALTIME, ClockId::Realtime),
    ] {
        // Breakpoints accept only the first two clocks.
        let event = Builder::software(Software::PAGE_FAULTS)
            .exclude_kernel(true)
            .period(1)
            .sample(SampleType::TIME | SampleType::ADDR)
            .clock(clock)
            .disabled(false);
        let mut sampler = Sampler::open(&event, RING).unwrap();
        let now = || {
            let now = clock_gettime(id);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        // No page of a block of this size is mapped yet.
        let mut memory = vec![0_u8; 64 << 20];
        let before = now();
        memory[32 << 20] = std::hint::black_box(1);
        let after = now();
        let touched = &raw const memory[32 << 20] as u64;
        let mut time = None;
        while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
            if let Record::Sample(sample) = next.record
                && sample.addr().map(|address| address / 4096) == Some(touched / 4096)
            {
                time = sample.time();
            }
        }
        let time = time.expect("a page fault");
        // Settable clocks may be set meanwhile.
        match clock {
            Clock::REALTIME | Clock::TAI => assert!(time.abs_diff(before) < 3_600_000_000_000),
            _ => assert!((before..=after).contains(&time), "{clock:?}"),
        }
    }
}

#[test]
fn records_of_a_snapshot_are_decoded() {
    let event = Builder::software(Software::DUMMY).sample(SampleType::ADDR);
    let decoder = RecordDecoder::new(event.attr());
    let mut bytes = Vec::new();
    for address in [5_u64, 6] {
        bytes.extend([9, 0, 0, 0, 2, 0, 16, 0]);
        bytes.extend(address.to_ne_bytes());
    }
    bytes.extend([9, 0, 0, 0, 2, 0, 16, 0]);
    let addresses: Vec<_> = (decoder.records(&bytes))
        .map(|record| match record.unwrap().record {
            Record::Sample(sample) => sample.addr().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(addresses, [5, 6], "the third is cut off");
}
