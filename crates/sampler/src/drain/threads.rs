//! Starting and stopping the drain threads.

use super::batch::Batch;
use super::buffers::{self, Recycler};
use super::drainer::{DrainCounts, Drainer, Layouts, SIDEBAND_BATCH};
use crate::errno::Errno;
use crate::open::{CpuEvents, CpuRings};
use crate::options::DrainOptions;
use crate::ring::MAX_RECORD;
use crate::sys::{self, StopFlag};
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
    pub(crate) options: DrainOptions,
}

/// The running threads. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct DrainThreads {
    stop: Arc<StopFlag>,
    handles: Vec<JoinHandle<DrainCounts>>,
    /// First error from asking for another priority.
    pub(crate) nice_refused: Option<Errno>,
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
            options,
        } = start;
        let stop = Arc::new(StopFlag::new()?);
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
        let mut threads = DrainThreads {
            stop: Arc::clone(&stop),
            handles: Vec::with_capacity(cpus.len()),
            nice_refused: None,
            pinned: true,
        };
        for ((events, rings), stocks) in cpus.into_iter().zip(stocks) {
            let cpu = events.cpu;
            let drainer = Drainer {
                events,
                rings,
                stocks,
                layouts: Layouts {
                    samples: samples.clone(),
                    sideband: sideband.clone(),
                },
                sender: sender.clone(),
                stop: Arc::clone(&stop),
                batch_bytes,
                idle: options.idle,
                crowded: WATERMARKS * numbers.len(),
                watermark: 0,
                counts: DrainCounts::default(),
            };
            let ready = ready.clone();
            let (pin, nice) = (options.pin, options.nice);
            let handle = std::thread::Builder::new()
                // The kernel keeps 15 bytes of a thread's name.
                .name(format!("rprof-cpu{cpu}"))
                .spawn(move || {
                    let mut drainer = drainer;
                    block_signals();
                    drainer.counts.pinned = pin && sys::pin_to(cpu);
                    let reniced = nice.map_or(Ok(()), sys::renice);
                    let _ = ready.send((drainer.counts.pinned, reniced));
                    drop(ready);
                    drainer.run()
                })?;
            threads.handles.push(handle);
        }
        drop(ready);
        for (pinned, reniced) in all_ready {
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
    crate::launch::block_all_signals();
}
