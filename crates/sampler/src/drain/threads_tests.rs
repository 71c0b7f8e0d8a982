//! Drain threads on quiet events, with made-up hang-ups.

use super::*;
use crate::trace_area::made_up::MadeUpArea;
use rprof_perf_event::{OpenOptions, PerfFd, Ring};
use rprof_records::{Attr, AttrFlags, Endian, EventKind, ReadFormat};
use std::os::fd::AsFd;
use std::time::Duration;

/// Opens an event of this thread that never writes a record. Skips the test where there are none.
fn quiet() -> Option<PerfFd> {
    let attr = Attr {
        kind: EventKind::SOFTWARE,
        // PERF_COUNT_SW_DUMMY.
        config: 9,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    match OpenOptions::new(&attr).cpu(0).open_named("dummy") {
        Ok(fd) => Some(fd),
        Err(error) => {
            rprof_testing::skip(format!("needs perf events: {error}"));
            None
        }
    }
}

/// Maps the rings of two quiet events; `samples`, if given, is polled in place of the first.
fn cpu(number: u32, samples: Option<PerfFd>) -> Option<(Arc<CpuEvents>, CpuRings)> {
    let (a, b) = (quiet()?, quiet()?);
    let map = |fd: &PerfFd| Ring::map(fd.as_fd(), 8 * rustix::param::page_size());
    let rings = match (map(&a), map(&b)) {
        (Ok(samples), Ok(sideband)) => CpuRings {
            samples,
            sideband,
            trace: None,
        },
        (Err(errno), _) | (_, Err(errno)) => {
            rprof_testing::skip(format!("needs ring buffers: {errno}"));
            return None;
        }
    };
    let events = CpuEvents {
        cpu: number,
        samples: Arc::new(samples.unwrap_or(a)),
        sideband: Arc::new(b),
        watches_cpu: true,
    };
    Some((Arc::new(events), rings))
}

fn start(cpus: Vec<(Arc<CpuEvents>, CpuRings)>) -> (DrainThreads, Receiver<Batch>) {
    let layout = SampleLayout::new(&Attr::default(), Endian::NATIVE);
    let config = DrainConfig {
        cpus,
        samples: layout.clone(),
        sideband: layout,
        dumps: Dumps::new(),
        bases: StackBases::default(),
        clock: Clock::MONOTONIC,
        snapshot_bytes: 0,
        options: DrainOptions {
            idle: Duration::from_millis(5),
            pin: false,
            ..DrainOptions::default()
        },
    };
    let (threads, batches, _) = DrainThreads::start(config).unwrap();
    (threads, batches)
}

#[test]
fn a_cpu_that_goes_away_ends_its_thread_alone() {
    // A pipe without a writer hangs up as an event does whose CPU went offline.
    let (read, write) = io::pipe().unwrap();
    drop(write);
    let read = PerfFd::from_fd(read.into(), ReadFormat::empty());
    let Some((gone, stays)) = cpu(0, Some(read)).zip(cpu(1, None)) else {
        return;
    };
    let (mut threads, batches) = start(vec![gone, stays]);
    let last = batches.iter().find(|batch| batch.watermark == u64::MAX);
    assert_eq!(last.map(|batch| batch.cpu), Some(0));
    // The other one goes on sending watermarks.
    for _ in 0..3 {
        let batch = batches.recv().unwrap();
        assert!(batch.cpu == 1 && batch.watermark < u64::MAX);
    }
    let offline: Vec<bool> = (threads.stop().iter())
        .map(|counts| counts.cpu_went_offline)
        .collect();
    assert_eq!(offline, [true, false]);
}

#[test]
fn a_pinned_event_without_a_counter_is_no_cpu_that_went_offline() {
    // A pipe without a reader has POLLERR alone, as a pinned event has since Linux 6.15.
    let (read, write) = io::pipe().unwrap();
    drop(read);
    let write = PerfFd::from_fd(write.into(), ReadFormat::empty());
    let Some(pinned) = cpu(0, Some(write)) else {
        return;
    };
    let (mut threads, batches) = start(vec![pinned]);
    // The thread goes on: sideband of that CPU is drained as before.
    for _ in 0..3 {
        assert!(batches.recv().unwrap().watermark < u64::MAX);
    }
    assert!(!threads.stop()[0].cpu_went_offline);
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
    // The first round sent what its bound allows before its watermark.
    batches.recv().unwrap();
    assert!(take() >= 4 * 2730 * 192);
    let counts = threads.stop();
    take();
    assert_eq!((take(), counts[0].trace_bytes), (end, end));
}
