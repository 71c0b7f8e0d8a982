//! The writer thread: merges, unwinds, counts and writes records.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, TryRecvError};
use rprof_perfdata::FeatureSections;
use rprof_records::Endian;
use rprof_sampler::{
    Batch, FastDrain, InheritedEventFilter, LateBoost, Recycler, RemoteDrain, Stream, Traces,
};

use super::deferred::DeferralQueue;
use super::layouts::Layouts;
use super::merge::{Merge, Released};
use crate::allocations::{Allocated, Allocations};
use crate::limits::{Limit, ReachedLimits};
use crate::memory::{Memory, MemoryUse};
use crate::offcpu::{OffCpu, ThreadTime, WaitOutput};
use crate::output::{RotatingOutput, interpreted};
use crate::progress::{LiveCounts, WriterState};
use crate::requests::Requests;
use crate::unwind::{RecordAction, StackTally, Unwinding};

/// Minimum time between two rounds.
const ROUND: Duration = Duration::from_millis(100);

pub(crate) struct Writer {
    pub(crate) batches: Receiver<Batch>,
    pub(crate) recycler: Recycler,
    pub(crate) fast_drain: FastDrain,
    /// The rings, if this thread drains them while fast draining is active.
    pub(crate) remote_drain: Option<RemoteDrain>,
    pub(crate) merge: Merge,
    pub(crate) filter: InheritedEventFilter,
    pub(crate) layouts: Arc<Layouts>,
    pub(crate) output: RotatingOutput,
    pub(crate) deferrals: DeferralQueue,
    pub(crate) unwinding: Option<Unwinding>,
    pub(crate) off_cpu: Option<OffCpu>,
    pub(crate) memory: Option<Memory>,
    pub(crate) allocations: Option<Allocations>,
    pub(crate) requests: Option<Requests>,
    pub(crate) live: Arc<LiveCounts>,
    pub(crate) traces: Traces,
    /// Polling interval of the channel while nothing is urgent; `None` to be woken by each batch.
    pub(crate) pause: Option<Duration>,
    /// Raises the thread's priority while it is late.
    pub(crate) boost: LateBoost,
    /// Queue length from which the thread is late. A boost ends at a quarter of it.
    pub(crate) late: usize,
    /// Receives a byte when the recording should end.
    pub(crate) notify: Option<UnixStream>,
}

pub(crate) struct Written {
    pub(crate) output: RotatingOutput,
    pub(crate) stacks: Option<StackTally>,
    pub(crate) thread_time: Option<ThreadTime>,
    pub(crate) memory: Option<MemoryUse>,
    pub(crate) allocations: Option<Allocated>,
    pub(crate) limits: ReachedLimits,
    pub(crate) rejected: u64,
    pub(crate) late: u64,
    pub(crate) most_pending: usize,
    pub(crate) damaged_bytes: u64,
    /// The first write error. Earlier records are in the file.
    pub(crate) failure: Option<io::Error>,
}

impl Writer {
    /// Handles batches until the channel is closed. After a write error it discards them, so that
    /// drain threads do not block.
    pub(crate) fn run(mut self) -> Written {
        let mut failure = self.output.begin().err();
        let mut round = Instant::now();
        while let Ok(batch) = self.next() {
            let late = match self.boost.is_on() {
                true => self.late / 4,
                false => self.late,
            };
            self.boost.update(self.batches.len() >= late);
            self.merge.push(batch);
            // Take in waiting batches before a release, but not more than the merge may hold.
            while !self.merge.has_much()
                && let Ok(batch) = self.batches.try_recv()
            {
                self.merge.push(batch);
            }
            let was_good = failure.is_none() && !self.output.is_full();
            failure = self.put_traces(failure.is_none()).err().or(failure);
            let wrote = self.release(failure.is_none());
            for batch in self.merge.take_done() {
                self.recycler.recycle(batch);
            }
            let ended = match wrote {
                Ok(()) if failure.is_none() && round.elapsed() >= ROUND => {
                    round = Instant::now();
                    self.output.end_round()
                }
                wrote => wrote,
            };
            failure = failure.or(ended.err());
            self.output.publish();
            if was_good && (failure.is_some() || self.output.is_full()) {
                self.tell(failure.is_some());
            }
        }
        self.boost.end();
        failure = self.put_traces(failure.is_none()).err().or(failure);
        let mut thread_time = None;
        let (mut memory, mut allocations) = (None, None);
        if failure.is_none() {
            // Release all records regardless of the last watermarks.
            let mut output = WaitOutput {
                off_cpu: &mut self.off_cpu,
                memory: &mut self.memory,
                allocations: &mut self.allocations,
                output: &mut self.output,
            };
            let rest = (self.deferrals).flush_ready(u64::MAX, self.unwinding.as_mut(), &mut output);
            failure = rest.err();
            let ended = (self.off_cpu.as_mut()).map(|off_cpu| off_cpu.finish(&mut self.output));
            match ended.transpose() {
                Ok(time) => thread_time = time,
                Err(error) => failure = failure.or(Some(error)),
            }
            let shown = (self.memory.as_mut()).map(|memory| memory.finish(&mut self.output));
            match shown.transpose() {
                Ok(shown) => memory = shown,
                Err(error) => failure = failure.or(Some(error)),
            }
            let made = (self.allocations.as_mut()).map(|made| made.finish(&mut self.output));
            match made.transpose() {
                Ok(made) => allocations = made,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut limits =
            (self.unwinding.as_ref()).map_or_else(ReachedLimits::default, Unwinding::limits);
        limits.add(Limit::Flood, self.merge.flooded());
        Written {
            rejected: self.filter.rejected(),
            late: self.merge.late(),
            most_pending: self.merge.high_water(),
            damaged_bytes: self.merge.damaged_bytes()
                + self.unwinding.as_ref().map_or(0, Unwinding::damaged_bytes),
            output: self.output,
            thread_time,
            memory,
            allocations,
            limits,
            stacks: self.unwinding.map(Unwinding::into_tally),
            failure,
        }
    }

    fn put_traces(&mut self, good: bool) -> io::Result<()> {
        for piece in self.traces.take() {
            if good {
                self.output.put_trace(&piece)?;
            }
        }
        Ok(())
    }

    /// Receives the next batch. During fast draining on few CPUs, this thread drains the rings
    /// itself, because drain threads would preempt the workload. On many CPUs drain threads send
    /// batches every few milliseconds, and wake-ups would cost more than the batches. So this
    /// thread polls at the drain interval or the configured pause. The end of the recording wakes
    /// it.
    fn next(&self) -> Result<Batch, RecvError> {
        loop {
            let pause = self.fast_drain.poll_interval().or(self.pause);
            match (self.batches.try_recv(), pause) {
                (Ok(batch), _) => return Ok(batch),
                (Err(TryRecvError::Disconnected), _) => return Err(RecvError),
                (Err(TryRecvError::Empty), Some(pause)) => {
                    std::thread::park_timeout(pause);
                    if let Some(rings) = &self.remote_drain
                        && self.fast_drain.is_active()
                    {
                        rings.drain();
                    }
                }
                (Err(TryRecvError::Empty), None) => return self.batches.recv(),
            }
        }
    }

    /// Releases sorted records to the output; drops them after a failure.
    fn release(&mut self, good: bool) -> io::Result<()> {
        let Writer {
            merge,
            filter,
            layouts,
            output,
            deferrals,
            unwinding,
            off_cpu,
            memory,
            allocations,
            requests,
            ..
        } = self;
        if let Some(waits) = off_cpu {
            waits.take_changes(unwinding.as_mut());
        }
        let mut unwound = Vec::new();
        merge.release(|record| {
            if !good {
                return Ok(());
            }
            if let Some(requests) = requests
                && requests.is_context(&record)
            {
                if !requests.accepts(&record) {
                    return Ok(());
                }
                let mut output = WaitOutput {
                    off_cpu,
                    memory,
                    allocations,
                    output,
                };
                return deferrals.push(&record, None, false, &mut output);
            }
            let is_wakeup = off_cpu
                .as_ref()
                .is_some_and(|waits| waits.is_wakeup(&record));
            if !is_wakeup && !filter.accepts(record.stream, record.bytes) {
                return Ok(());
            }
            if off_cpu.as_ref().is_some_and(|waits| waits.is_idle(&record)) {
                return Ok(());
            }
            // Decoded once for all users of process events.
            let event = layouts.process_event(&record);
            let event = event.as_ref();
            if let Some(event) = event {
                output.notice(event, record.time);
                if let Some(requests) = requests {
                    requests.handle(event);
                }
            }
            let action = match unwinding {
                Some(unwinding) => unwinding.handle(&record, event, &mut unwound),
                None => RecordAction::Keep,
            };
            let bytes = match action {
                RecordAction::Keep => record.bytes,
                RecordAction::Replace | RecordAction::Defer => &unwound,
                RecordAction::Drop => return Ok(()),
            };
            let announced = unwinding.as_mut().and_then(Unwinding::take_unannounced);
            let mut output = WaitOutput {
                off_cpu,
                memory,
                allocations,
                output,
            };
            while let Some((pid, bytes)) =
                (requests.as_ref()).and_then(|all| all.take_process(record.time))
            {
                output.output.carry_request_context(pid, &bytes);
                let found = Released {
                    bytes: &bytes,
                    stream: Stream::Samples,
                    ..record
                };
                deferrals.push(&found, None, false, &mut output)?;
            }
            if let Some(pid) = announced {
                let bytes = interpreted::mapping(pid, record.time, &layouts.sideband)?;
                let mapping = Released {
                    bytes: &bytes,
                    stream: Stream::Sideband,
                    ..record
                };
                let event = layouts.process_event(&mapping);
                deferrals.push(&mapping, event.as_ref(), false, &mut output)?;
            }
            let record = Released { bytes, ..record };
            deferrals.push(&record, event, action == RecordAction::Defer, &mut output)
        })?;
        if !good {
            return Ok(());
        }
        for image in unwinding.iter_mut().flat_map(Unwinding::take_sampled) {
            output.handle_sampled(image);
        }
        if let Some(waits) = off_cpu.as_mut() {
            waits.look_at_sleepers(unwinding.as_mut());
        }
        let mut waits = WaitOutput {
            off_cpu,
            memory,
            allocations,
            output,
        };
        let reached = deferrals.flush_ready(merge.reached(), unwinding.as_mut(), &mut waits)?;
        if let Some(waits) = off_cpu {
            waits.begin_if_due(reached);
        }
        if let Some(memory) = memory {
            memory.take_looks(reached);
            memory.write_steps(output)?;
        }
        output.reached(reached)
    }

    /// Publishes that no more records will be written, and notifies the waiting thread.
    fn tell(&mut self, failed: bool) {
        let state = match failed {
            true => WriterState::Failed,
            false => WriterState::Full,
        };
        self.live.state.store(state as u8, Ordering::SeqCst);
        if let Some(notify) = &mut self.notify {
            // A full socket wakes its reader anyway.
            notify.write_all(&[0]).ok();
        }
    }
}

pub(crate) fn start_features(command_line: &[String], online: u32) -> FeatureSections {
    let mut features = FeatureSections::new(Endian::NATIVE);
    crate::machine::describe(&mut features, online);
    let version = concat!("rprof ", env!("CARGO_PKG_VERSION"));
    features.insert_string(rprof_perfdata::Feature::VERSION, version);
    features.insert_command_line(command_line);
    features
}
