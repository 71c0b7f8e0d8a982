//! Starts and stops the drain threads.

use super::aliases::Aliases;
use super::batch::Batch;
use super::buffers::{self, Recycler};
use super::drainer::{self, DrainCounts, Drainer, Layouts, SharedDrainer, Urgency};
use super::fast_drain::FastDrain;
use super::remote::RemoteDrain;
use super::snapshot::{self, SnapshotSender};
use super::stack_bases::StackBases;
use super::trace::Traces;
use super::trim::Dumps;
use crate::open::{CpuEvents, CpuRings};
use crate::options::{DrainOptions, SIDEBAND_BATCH};
use crate::scheduling;
use crate::wakeup::WakeupFlag;
use crossbeam_channel::{Receiver, Sender, bounded};
use rprof_perf_event::ring::MAX_RECORD;
use rprof_perf_event::{Clock, Errno};
use rprof_records::SampleLayout;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Maximum number of bare watermarks in the channel, per CPU.
const WATERMARKS: usize = 2;

pub(crate) struct DrainConfig {
    pub(crate) cpus: Vec<(Arc<CpuEvents>, CpuRings)>,
    pub(crate) samples: SampleLayout,
    pub(crate) sideband: SampleLayout,
    pub(crate) dumps: Dumps,
    pub(crate) aliases: Aliases,
    pub(crate) bases: StackBases,
    pub(crate) clock: Clock,
    /// Bytes of the overwritten rings; 0 without.
    pub(crate) snapshot_bytes: usize,
    /// True if events with a fixed period have stack copies.
    pub(crate) comes_in_bursts: bool,
    pub(crate) options: DrainOptions,
}

#[derive(Debug)]
pub(crate) struct DrainThreads {
    stop: Arc<WakeupFlag>,
    handles: Vec<JoinHandle<DrainCounts>>,
    rings: RemoteDrain,
    pub(crate) snapshots: Option<SnapshotSender>,
    pub(crate) traces: Traces,
    pub(crate) fast_drain: FastDrain,
    pub(crate) nice_refused: Option<Errno>,
    pub(crate) realtime_refused: Option<Errno>,
    pub(crate) pinned: bool,
    /// Minimum number of queued batches of a receiver that is late.
    pub(crate) many_batches: usize,
}

impl DrainThreads {
    /// Starts a thread for each CPU.
    ///
    /// # Errors
    /// If the system has no eventfd or thread left.
    pub(crate) fn start(
        config: DrainConfig,
    ) -> io::Result<(DrainThreads, Receiver<Batch>, Recycler)> {
        let DrainConfig {
            cpus,
            samples,
            sideband,
            dumps,
            aliases,
            bases,
            clock,
            snapshot_bytes,
            comes_in_bursts,
            options,
        } = config;
        let dumps = Arc::new(dumps);
        let stop = Arc::new(WakeupFlag::new()?);
        let numbers: Vec<u32> = cpus.iter().map(|(events, _)| events.cpu).collect();
        let sizes = BufferSizes::new(&options, cpus.len());
        let (pools, recycler) =
            buffers::make(&numbers, sizes.samples, sizes.sideband, sizes.reserve);
        let places = cpus.iter().map(|(_, rings)| sizes.places(rings));
        let places = sizes.reserve + places.sum::<usize>();
        let (sender, receiver) = bounded(places + snapshot::places(snapshot_bytes));
        let (ready, all_ready) = bounded(cpus.len());
        let fast_drain = FastDrain::new(cpus.len(), options.fast)?;
        let layouts = Layouts {
            samples,
            sideband,
            dumps,
            bases,
        };
        let snapshots = (snapshot_bytes > 0).then(|| SnapshotSender {
            sender: sender.clone(),
            layouts: layouts.clone(),
        });
        let mut threads = DrainThreads {
            stop: Arc::clone(&stop),
            snapshots,
            traces: Traces::default(),
            fast_drain: fast_drain.clone(),
            handles: Vec::with_capacity(cpus.len()),
            rings: RemoteDrain {
                drainers: Arc::default(),
            },
            nice_refused: None,
            realtime_refused: None,
            pinned: true,
            many_batches: sizes.samples * cpus.len() + sizes.reserve / 4,
        };
        let urgency = Urgency::new(&options);
        let scheduling = Scheduling {
            pin: options.pin,
            nice: options.nice,
            realtime: options.realtime,
            begins_late: urgency == Urgency::WhenLate && comes_in_bursts,
        };
        let mut drainers: Vec<SharedDrainer> = Vec::with_capacity(cpus.len());
        for (number, ((events, mut rings), pools)) in cpus.into_iter().zip(pools).enumerate() {
            let cpu = events.cpu;
            let index = u32::try_from(number).unwrap_or(u32::MAX);
            let area = rings.trace.take();
            let drainer = Drainer {
                events,
                rings,
                trace: area.map(|area| threads.traces.add(cpu, index, area)),
                pools,
                layouts: layouts.clone(),
                sender: sender.clone(),
                stop: Arc::clone(&stop),
                clock,
                batch_bytes: sizes.batch_bytes,
                idle: options.idle,
                fast_drain: fast_drain.clone(),
                number,
                crowded: WATERMARKS * numbers.len(),
                urgency,
                watermark: 0,
                aliases: aliases.clone(),
                is_renewed: false,
                counts: DrainCounts::default(),
            };
            let drainer = Arc::new(Mutex::new(Some(drainer)));
            drainers.push(Arc::clone(&drainer));
            (threads.handles).push(scheduling.spawn(cpu, drainer, ready.clone())?);
        }
        drop(ready);
        threads.rings.drainers = drainers.into();
        for thread in all_ready {
            threads.realtime_refused = threads.realtime_refused.or(thread.realtime.err());
            threads.pinned &= thread.pinned;
            threads.nice_refused = threads.nice_refused.or(thread.nice.err());
        }
        Ok((threads, receiver, recycler))
    }

    /// Lets the threads drain the rest, and waits for them. All events must be disabled. Returns
    /// one entry for each CPU.
    pub(crate) fn stop(&mut self) -> Vec<DrainCounts> {
        self.snapshots = None;
        self.stop.raise();
        let handles = self.handles.drain(..);
        // Threads do not panic.
        let counts = handles
            .map(|handle| handle.join().unwrap_or_default())
            .collect();
        // The channel ends with its last drainer.
        for drainer in &*self.rings.drainers {
            drainer::locked(drainer).take();
        }
        counts
    }

    /// Returns the rings of all CPUs.
    pub(crate) fn rings(&self) -> &RemoteDrain {
        &self.rings
    }

    /// Hands fast draining to the receiver: see
    /// [`Session::remote_drain`](crate::Session::remote_drain).
    pub(crate) fn remote(&self) -> Option<RemoteDrain> {
        let cpus = self.rings.drainers.len();
        (self.fast_drain.leave_to_receiver(cpus)).then(|| self.rings.clone())
    }
}

impl Drop for DrainThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

struct BufferSizes {
    /// Buffers of each CPU.
    samples: usize,
    sideband: usize,
    /// Buffers that all CPUs share.
    reserve: usize,
    batch_bytes: usize,
}

impl BufferSizes {
    fn new(options: &DrainOptions, cpus: usize) -> BufferSizes {
        let (samples, sideband) = options.buffers(cpus);
        BufferSizes {
            samples,
            sideband,
            reserve: options.reserve(cpus),
            batch_bytes: options.batch_bytes.max(MAX_RECORD),
        }
    }

    /// Returns the maximum number of messages of a CPU in the channel.
    fn places(&self, rings: &CpuRings) -> usize {
        // Buffers; batches of the last drain beyond them (maybe smaller than their limit by one
        // record); bare watermarks (twice: threads check and send concurrently); the one that may
        // always wait; the last message.
        let last = |bytes: usize, batch: usize| 2 + bytes.div_ceil(batch / 2);
        self.samples
            + self.sideband
            + last(rings.samples.size(), self.batch_bytes)
            + last(rings.sideband.size(), SIDEBAND_BATCH)
            + 2 * WATERMARKS
            + 2
    }
}

#[derive(Clone, Copy)]
struct Scheduling {
    pin: bool,
    nice: Option<i32>,
    realtime: Option<u8>,
    /// Start as if late: real-time, where permitted.
    begins_late: bool,
}

struct Permitted {
    pinned: bool,
    nice: Result<(), Errno>,
    realtime: Result<(), Errno>,
}

impl Scheduling {
    /// Starts a CPU's thread, which reports its scheduling before it drains.
    fn spawn(
        self,
        cpu: u32,
        drainer: SharedDrainer,
        ready: Sender<Permitted>,
    ) -> io::Result<JoinHandle<DrainCounts>> {
        std::thread::Builder::new()
            // 15 bytes at most.
            .name(format!("rprof-cpu{cpu}"))
            .spawn(move || {
                // Signal handlers belong to the program's own threads.
                rprof_launch::command::block_all_signals();
                let permitted = self.apply(cpu);
                if let Some(drainer) = drainer::locked(&drainer).as_mut() {
                    drainer.counts.pinned = permitted.pinned;
                }
                let _ = ready.send(permitted);
                drop(ready);
                drainer::run(&drainer)
            })
    }

    fn apply(self, cpu: u32) -> Permitted {
        let pinned = self.pin && scheduling::pin_to(cpu);
        let nice = match self.nice {
            Some(nice) => scheduling::renice(nice),
            None => {
                scheduling::prefer_this_thread();
                Ok(())
            }
        };
        let realtime = self.realtime.map_or(Ok(()), scheduling::make_realtime);
        if self.begins_late {
            // Optional.
            let _ = scheduling::make_realtime(scheduling::LATE_DRAIN);
        }
        Permitted {
            pinned,
            nice,
            realtime,
        }
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
