//! Starting and stopping the drain threads.

use super::batch::Batch;
use super::buffers::{self, Recycler};
use super::drainer::{DrainCounts, Drainer, Layouts, SIDEBAND_BATCH};
use super::haste::Haste;
use super::tops::StackTops;
use super::trim::Dumps;
use crate::errno::Errno;
use crate::open::{CpuEvents, CpuRings};
use crate::options::DrainOptions;
use crate::ring::MAX_RECORD;
use crate::sys::{self, Flag};
use crossbeam_channel::{Receiver, bounded};
use rprof_records::SampleLayout;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Bare watermarks that may wait in the channel, for each CPU.
const WATERMARKS: usize = 2;

/// What the threads need.
pub(crate) struct Start {
    pub(crate) cpus: Vec<(Arc<CpuEvents>, CpuRings)>,
    pub(crate) samples: SampleLayout,
    pub(crate) sideband: SampleLayout,
    /// Of the samples with a copy of the stack.
    pub(crate) dumps: Dumps,
    pub(crate) tops: StackTops,
    pub(crate) options: DrainOptions,
}

/// The running threads. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct DrainThreads {
    stop: Arc<Flag>,
    handles: Vec<JoinHandle<DrainCounts>>,
    /// When they are to look more often.
    pub(crate) haste: Haste,
    /// First error from asking for another priority.
    pub(crate) nice_refused: Option<Errno>,
    /// First error from asking for real-time scheduling.
    pub(crate) realtime_refused: Option<Errno>,
    /// Whether every thread is bound to its CPU.
    pub(crate) pinned: bool,
}

impl DrainThreads {
    /// Starts a thread for each CPU; all of them run when this returns.
    ///
    /// # Errors
    /// When the system gives no eventfd or no thread.
    pub(crate) fn start(start: Start) -> io::Result<(DrainThreads, Receiver<Batch>, Recycler)> {
        let Start {
            cpus,
            samples,
            sideband,
            dumps,
            tops,
            options,
        } = start;
        let dumps = Arc::new(dumps);
        let stop = Arc::new(Flag::new()?);
        let batch_bytes = options.batch_bytes.max(MAX_RECORD);
        let sample_buffers = options.sample_buffers.max(1);
        let sideband_buffers = options.sideband_buffers.max(1);
        let numbers: Vec<u32> = cpus.iter().map(|(events, _)| events.cpu).collect();
        let (stocks, recycler) = buffers::make(&numbers, sample_buffers, sideband_buffers);
        // For each CPU: its buffers, the batches of the last drain beyond them (a batch may
        // fall short of its limit by one record), bare watermarks (twice: threads look and
        // send at the same time), and the last message.
        let places = |(_, rings): &(Arc<CpuEvents>, CpuRings)| {
            let last = |bytes: usize, batch: usize| 2 + bytes.div_ceil(batch / 2);
            sample_buffers
                + sideband_buffers
                + last(rings.samples.size(), batch_bytes)
                + last(rings.sideband.size(), SIDEBAND_BATCH)
                + 2 * WATERMARKS
                + 1
        };
        let (sender, receiver) = bounded(cpus.iter().map(places).sum());
        let (ready, all_ready) = bounded(cpus.len());
        let haste = Haste::new(cpus.len())?;
        let mut threads = DrainThreads {
            stop: Arc::clone(&stop),
            haste: haste.clone(),
            handles: Vec::with_capacity(cpus.len()),
            nice_refused: None,
            realtime_refused: None,
            pinned: true,
        };
        for (number, ((events, rings), stocks)) in cpus.into_iter().zip(stocks).enumerate() {
            let cpu = events.cpu;
            let drainer = Drainer {
                events,
                rings,
                stocks,
                layouts: Layouts {
                    samples: samples.clone(),
                    sideband: sideband.clone(),
                    dumps: Arc::clone(&dumps),
                    tops: tops.clone(),
                },
                sender: sender.clone(),
                stop: Arc::clone(&stop),
                batch_bytes,
                idle: options.idle,
                haste: haste.clone(),
                number,
                crowded: WATERMARKS * numbers.len(),
                watermark: 0,
                counts: DrainCounts::default(),
            };
            let ready = ready.clone();
            let (pin, nice, realtime) = (options.pin, options.nice, options.realtime);
            let handle = std::thread::Builder::new()
                // The kernel keeps 15 bytes of a thread's name.
                .name(format!("rprof-cpu{cpu}"))
                .spawn(move || {
                    let mut drainer = drainer;
                    block_signals();
                    drainer.counts.pinned = pin && sys::pin_to(cpu);
                    let reniced = match nice {
                        Some(nice) => sys::renice(nice),
                        // Whoever may not be served first does without.
                        None => {
                            sys::run_soon();
                            Ok(())
                        }
                    };
                    let raised = realtime.map_or(Ok(()), sys::make_realtime);
                    let _ = ready.send((drainer.counts.pinned, reniced, raised));
                    drop(ready);
                    drainer.run()
                })?;
            threads.handles.push(handle);
        }
        drop(ready);
        for (pinned, reniced, raised) in all_ready {
            threads.realtime_refused = threads.realtime_refused.or(raised.err());
            threads.pinned &= pinned;
            threads.nice_refused = threads.nice_refused.or(reniced.err());
        }
        Ok((threads, receiver, recycler))
    }

    /// Lets the threads drain what is left, and waits for them. Events are disabled before.
    ///
    /// One entry for each CPU, in order.
    pub(crate) fn stop(&mut self) -> Vec<DrainCounts> {
        self.stop.raise();
        let handles = self.handles.drain(..);
        // A thread does not panic; should it, its counts are all that is lost.
        handles
            .map(|handle| handle.join().unwrap_or_default())
            .collect()
    }
}

impl Drop for DrainThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Signals are for the program's own threads: a handler has no business here.
fn block_signals() {
    rprof_launch::command::block_all_signals();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Ring;
    use rprof_perf_event::PerfFd;
    use rprof_records::{Attr, AttrFlags, Endian, EventKind};
    use std::os::fd::AsFd;
    use std::time::Duration;

    /// An event of this thread that never says anything; `None` where there are no events.
    fn quiet() -> Option<PerfFd> {
        let attr = Attr {
            kind: EventKind::SOFTWARE,
            // PERF_COUNT_SW_DUMMY.
            config: 9,
            flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..Attr::default()
        };
        PerfFd::open(&attr, 0, Some(0)).ok()
    }

    /// The rings of quiet events, polled by `samples`, or as the events themselves.
    fn cpu(number: u32, samples: Option<PerfFd>) -> Option<(Arc<CpuEvents>, CpuRings)> {
        let (a, b) = (quiet()?, quiet()?);
        let map = |fd: &PerfFd| Ring::map(fd.as_fd(), 8 * sys::page_size()).ok();
        let rings = CpuRings {
            samples: map(&a)?,
            sideband: map(&b)?,
        };
        let events = CpuEvents {
            cpu: number,
            samples: Arc::new(samples.unwrap_or(a)),
            sideband: Arc::new(b),
            watches_cpu: true,
        };
        Some((Arc::new(events), rings))
    }

    #[test]
    fn a_cpu_that_goes_away_ends_its_thread_alone() {
        // A pipe without a writer hangs up as an event does whose CPU went offline.
        let (read, write) = io::pipe().unwrap();
        drop(write);
        let (Some(gone), Some(stays)) = (
            cpu(
                0,
                Some(PerfFd::from_fd(
                    read.into(),
                    rprof_records::ReadFormat::empty(),
                )),
            ),
            cpu(1, None),
        ) else {
            return;
        };
        let layout = SampleLayout::new(&Attr::default(), Endian::NATIVE);
        let start = Start {
            cpus: vec![gone, stays],
            samples: layout.clone(),
            sideband: layout,
            dumps: Dumps::new(),
            tops: StackTops::default(),
            options: DrainOptions {
                idle: Duration::from_millis(5),
                pin: false,
                ..DrainOptions::default()
            },
        };
        let (mut threads, batches, _) = DrainThreads::start(start).unwrap();
        let last = batches.iter().find(|batch| batch.watermark == u64::MAX);
        assert_eq!(last.map(|batch| batch.cpu), Some(0));
        // The other one goes on telling the time.
        for _ in 0..3 {
            let batch = batches.recv().unwrap();
            assert!(batch.cpu == 1 && batch.watermark < u64::MAX);
        }
        let counts = threads.stop();
        let offline: Vec<bool> = counts
            .iter()
            .map(|counts| counts.cpu_went_offline)
            .collect();
        assert_eq!(offline, [true, false]);
    }
}
