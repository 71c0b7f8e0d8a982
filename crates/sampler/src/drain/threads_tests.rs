//! Drain threads on quiet events with simulated hang-ups, and rings drained remotely.

use super::*;
use crate::trace_area::made_up::MadeUpArea;
use rprof_perf_event::{OpenOptions, PerfFd, Ring};
use rprof_records::{
    Attr, AttrFlags, Endian, EventKind, RawRecord, ReadFormat, RecordType, SampleType,
};
use std::os::fd::AsFd;
use std::time::Duration;

/// Opens an event of this thread that never writes a record.
fn quiet() -> Option<PerfFd> {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        config: 9,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    opened(OpenOptions::new(&attr).cpu(0), "dummy")
}

fn opened(options: OpenOptions<'_>, name: &str) -> Option<PerfFd> {
    match options.open_named(name) {
        Ok(fd) => Some(fd),
        Err(error) => {
            rprof_testing::skip(format!("needs perf events: {error}"));
            None
        }
    }
}

fn cpu(number: u32, samples: Option<PerfFd>) -> Option<(Arc<CpuEvents>, CpuRings)> {
    let (a, b) = (quiet()?, quiet()?);
    let rings = map(&a, &b)?;
    let events = CpuEvents {
        cpu: number,
        samples: Arc::new(samples.unwrap_or(a)),
        sideband: Arc::new(b),
    };
    Some((Arc::new(events), rings))
}

fn map(samples: &PerfFd, sideband: &PerfFd) -> Option<CpuRings> {
    let map = |fd: &PerfFd| Ring::map(fd.as_fd(), 8 * rustix::param::page_size());
    match (map(samples), map(sideband)) {
        (Ok(samples), Ok(sideband)) => Some(CpuRings {
            samples,
            sideband,
            trace: None,
        }),
        (Err(errno), _) | (_, Err(errno)) => {
            rprof_testing::skip(format!("needs ring buffers: {errno}"));
            None
        }
    }
}

fn start(cpus: Vec<(Arc<CpuEvents>, CpuRings)>) -> (DrainThreads, Receiver<Batch>) {
    start_with(cpus, &Attr::default(), Duration::from_millis(5))
}

/// The threads read every `idle` unless woken.
fn start_with(
    cpus: Vec<(Arc<CpuEvents>, CpuRings)>,
    attr: &Attr,
    idle: Duration,
) -> (DrainThreads, Receiver<Batch>) {
    let layout = SampleLayout::new(attr, Endian::NATIVE);
    let config = DrainConfig {
        cpus,
        samples: layout.clone(),
        sideband: layout,
        dumps: Dumps::new(),
        aliases: Aliases::default(),
        bases: StackBases::default(),
        clock: Clock::MONOTONIC,
        snapshot_bytes: 0,
        comes_in_bursts: false,
        options: DrainOptions {
            idle,
            pin: false,
            ..DrainOptions::default()
        },
    };
    let (threads, batches, _) = DrainThreads::start(config).unwrap();
    (threads, batches)
}

#[test]
fn events_that_hang_up_end_no_thread() {
    // A pipe without a writer hangs up, like an event of an ended thread. One without a reader has
    // only POLLERR, like a pinned event without a counter since Linux 6.15.
    let (read, write) = io::pipe().unwrap();
    drop(write);
    let gone = PerfFd::from_fd(read.into(), ReadFormat::empty());
    let (read, write) = io::pipe().unwrap();
    drop(read);
    let pinned = PerfFd::from_fd(write.into(), ReadFormat::empty());
    let Some((gone, pinned)) = cpu(0, Some(gone)).zip(cpu(1, Some(pinned))) else {
        return;
    };
    let (mut threads, batches) = start(vec![gone, pinned]);
    for wanted in [0, 1] {
        for _ in 0..3 {
            let mut of_cpu = batches.iter().filter(|batch| batch.cpu == wanted);
            assert!(of_cpu.next().unwrap().watermark < u64::MAX);
        }
    }
    assert_eq!(threads.stop().len(), 2);
}

#[test]
fn a_trace_is_there_when_the_records_behind_it_are() {
    let Some((events, mut rings)) = cpu(7, None) else {
        return;
    };
    let end = 5 * (1 << 20) + 3;
    rings.trace = Some(Box::new(MadeUpArea {
        size: 4 << 20,
        position: 0,
        end,
    }));
    let (mut threads, batches) = start(vec![(events, rings)]);
    let traces = threads.traces.clone();
    assert!(!traces.is_empty());
    let mut next = 0;
    let mut take = || {
        for piece in traces.take() {
            assert_eq!((piece.cpu, piece.index, piece.offset), (7, 0, next));
            next += piece.bytes.len() as u64;
        }
        next
    };
    batches.recv().unwrap();
    assert!(take() >= 4 * 2730 * 192);
    let counts = threads.stop();
    take();
    assert_eq!((take(), counts[0].trace_bytes), (end, end));
}

fn fault(pages: usize) {
    let size = rustix::param::page_size();
    // Untouched, and too short for huge pages.
    let mut memory = memmap2::MmapMut::map_anon(pages * size).unwrap();
    for page in memory.chunks_mut(size) {
        std::hint::black_box(page)[0] = 1;
    }
}

fn samples_in(batches: &Receiver<Batch>, layout: &SampleLayout) -> (Vec<u64>, u64) {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for batch in batches.try_iter() {
        bytes += batch.bytes.len() as u64;
        let mut rest = &batch.bytes[..];
        while let [a, b, c, d, _, _, low, high, ..] = *rest {
            let len = u16::from_ne_bytes([low, high]);
            let (record, behind) = rest.split_at(len.into());
            let record = RawRecord::parse(record.into(), Endian::NATIVE).unwrap();
            if u32::from_ne_bytes([a, b, c, d]) == RecordType::SAMPLE.0 {
                times.push(layout.time_of(&record).unwrap());
            }
            rest = behind;
        }
        assert!(rest.is_empty(), "whole records");
    }
    (times, bytes)
}

#[test]
fn rings_are_drained_from_elsewhere_while_their_threads_sleep() {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        config: 2,
        period_or_freq: 1,
        sample_type: SampleType::IP | SampleType::TIME,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    let samples = opened(OpenOptions::new(&attr), "page-faults");
    let Some((samples, sideband)) = samples.zip(quiet()) else {
        return;
    };
    let Some(rings) = map(&samples, &sideband) else {
        return;
    };
    let events = CpuEvents {
        cpu: 3,
        samples: Arc::new(samples),
        sideband: Arc::new(sideband),
    };
    let hour = Duration::from_secs(3600);
    let (mut threads, batches) = start_with(vec![(Arc::new(events), rings)], &attr, hour);
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let remote = threads.remote().unwrap();

    fault(100);
    assert!(batches.is_empty());
    remote.drain();
    let (first, first_bytes) = samples_in(&batches, &layout);
    assert!(first.len() >= 100 && first.is_sorted(), "{}", first.len());

    fault(50);
    let own = drainer::locked(&threads.rings.drainers[0]);
    remote.drain();
    drop(own);
    assert!(batches.is_empty());
    remote.drain();
    let (second, second_bytes) = samples_in(&batches, &layout);
    assert!(
        (50..first.len()).contains(&second.len()),
        "{}",
        second.len()
    );
    assert!(first.last() <= second.first(), "none twice");

    fault(20);
    let counts = threads.stop();
    let (last, last_bytes) = samples_in(&batches, &layout);
    assert!(last.len() >= 20 && second.last() <= last.first());
    let bytes = first_bytes + second_bytes + last_bytes;
    assert_eq!(
        (counts[0].sample_bytes, counts[0].damaged_bytes),
        (bytes, 0)
    );
    remote.drain();
    assert!(batches.is_empty());
}
