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
use crossbeam_channel::{Receiver, bounded};
use rprof_perf_event::Clock;
use rprof_perf_event::Errno;
use rprof_perf_event::ring::MAX_RECORD;
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
    pub(crate) bases: StackBases,
    pub(crate) clock: Clock,
    /// Size of the overwritten rings in bytes; 0 without.
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
    /// With this many queued batches, the receiver is late.
    pub(crate) many_batches: usize,
}

impl DrainThreads {
    /// Starts a thread for each CPU. All of them run when this returns.
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
            bases,
            clock,
            snapshot_bytes,
            comes_in_bursts,
            options,
        } = config;
        let dumps = Arc::new(dumps);
        let stop = Arc::new(WakeupFlag::new()?);
        let batch_bytes = options.batch_bytes.max(MAX_RECORD);
        let (sample_buffers, sideband_buffers) = options.buffers(cpus.len());
        let numbers: Vec<u32> = cpus.iter().map(|(events, _)| events.cpu).collect();
        let reserve = options.reserve(cpus.len());
        let (pools, recycler) = buffers::make(&numbers, sample_buffers, sideband_buffers, reserve);
        // Buffers; batches of the last drain beyond them (a batch may be smaller than its limit by
        // one record); bare watermarks (twice: threads check and send concurrently); the one that
        // may always wait; the last message.
        let places = |(_, rings): &(Arc<CpuEvents>, CpuRings)| {
            let last = |bytes: usize, batch: usize| 2 + bytes.div_ceil(batch / 2);
            sample_buffers
                + sideband_buffers
                + last(rings.samples.size(), batch_bytes)
                + last(rings.sideband.size(), SIDEBAND_BATCH)
                + 2 * WATERMARKS
                + 2
        };
        let places = reserve + cpus.iter().map(places).sum::<usize>();
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
            many_batches: sample_buffers * cpus.len() + reserve / 4,
        };
        let urgency = Urgency::new(&options);
        let begins_late = urgency == Urgency::WhenLate && comes_in_bursts;
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
                batch_bytes,
                idle: options.idle,
                fast_drain: fast_drain.clone(),
                number,
                crowded: WATERMARKS * numbers.len(),
                urgency,
                watermark: 0,
                aliases: Aliases::default(),
                is_renewed: false,
                counts: DrainCounts::default(),
            };
            let drainer = Arc::new(Mutex::new(Some(drainer)));
            drainers.push(Arc::clone(&drainer));
            let ready = ready.clone();
            let (pin, nice, realtime) = (options.pin, options.nice, options.realtime);
            let handle = std::thread::Builder::new()
                // 15 bytes at most.
                .name(format!("rprof-cpu{cpu}"))
                .spawn(move || {
                    block_signals();
                    let pinned = pin && scheduling::pin_to(cpu);
                    if let Some(drainer) = drainer::locked(&drainer).as_mut() {
                        drainer.counts.pinned = pinned;
                    }
                    let reniced = match nice {
                        Some(nice) => scheduling::renice(nice),
                        None => {
                            scheduling::prefer_this_thread();
                            Ok(())
                        }
                    };
                    let raised = realtime.map_or(Ok(()), scheduling::make_realtime);
                    if begins_late {
                        // Optional.
                        let _ = scheduling::make_realtime(scheduling::LATE_DRAIN);
                    }
                    let _ = ready.send((pinned, reniced, raised));
                    drop(ready);
                    drainer::run(&drainer)
                })?;
            threads.handles.push(handle);
        }
        drop(ready);
        threads.rings.drainers = drainers.into();
        for (pinned, reniced, raised) in all_ready {
            threads.realtime_refused = threads.realtime_refused.or(raised.err());
            threads.pinned &= pinned;
            threads.nice_refused = threads.nice_refused.or(reniced.err());
        }
        Ok((threads, receiver, recycler))
    }

    /// Lets the threads drain the rest, and waits for them. All events must be disabled.
    ///
    /// Returns one entry for each CPU, in order.
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

    /// Lets records of new events on a CPU, by its index, pass for those of the events that they
    /// replace. Pairs of ids, the new one first.
    pub(crate) fn add_aliases(&self, index: usize, ids: &[(u64, u64)]) {
        if let Some(shared) = self.rings.drainers.get(index)
            && let Some(drainer) = drainer::locked(shared).as_mut()
        {
            drainer.add_aliases(ids);
        }
    }

    /// Hands fast draining to the receiver, which must [drain](RemoteDrain::drain) every
    /// [`poll_interval`](FastDrain::poll_interval). `None` if there are too many CPUs.
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

/// Signal handlers belong to the program's own threads.
fn block_signals() {
    rprof_launch::command::block_all_signals();
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
