//! The writer thread: merges, unwinds, counts and writes records.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, TryRecvError};
use rprof_perfdata::FeatureSections;
use rprof_records::{Endian, ProcessEvent};
use rprof_sampler::{
    Batch, FastDrain, InheritedEventFilter, LateBoost, Recycler, RemoteDrain, Stream, Traces,
};

use super::deferred::DeferralQueue;
use super::layouts::Layouts;
use super::merge::{Merge, Released};
use crate::limits::{Limit, ReachedLimits};
use crate::offcpu::{FinalSums, WaitOutput};
use crate::output::{RotatingOutput, interpreted};
use crate::progress::{LiveCounts, WriterState};
use crate::requests::Requests;
use crate::short_threads::ShortThreads;
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
    pub(crate) layouts: Arc<Layouts>,
    pub(crate) steps: RecordSteps,
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

/// Steps of each record between the merge and the file.
pub(crate) struct RecordSteps {
    pub(crate) filter: InheritedEventFilter,
    pub(crate) short_threads: Option<ShortThreads>,
    pub(crate) requests: Option<Requests>,
    pub(crate) unwinding: Option<Unwinding>,
    pub(crate) deferrals: DeferralQueue,
    pub(crate) sink: WaitOutput,
}

pub(crate) struct Written {
    pub(crate) output: RotatingOutput,
    pub(crate) stacks: Option<StackTally>,
    pub(crate) sums: FinalSums,
    /// CPU time that the samples stand for, if their periods differ.
    pub(crate) sampled: Option<Duration>,
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
        let mut failure = self.steps.sink.output.begin().err();
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
            let was_good = failure.is_none() && !self.steps.sink.output.is_full();
            failure = self.put_traces(failure.is_none()).err().or(failure);
            let wrote = self.release(failure.is_none());
            for batch in self.merge.take_done() {
                self.recycler.recycle(batch);
            }
            let ended = match wrote {
                Ok(()) if failure.is_none() && round.elapsed() >= ROUND => {
                    round = Instant::now();
                    self.steps.sink.output.end_round()
                }
                wrote => wrote,
            };
            failure = failure.or(ended.err());
            self.steps.sink.output.publish();
            if was_good && (failure.is_some() || self.steps.sink.output.is_full()) {
                self.tell(failure.is_some());
            }
        }
        self.boost.end();
        failure = self.put_traces(failure.is_none()).err().or(failure);
        let mut sums = FinalSums::default();
        if failure.is_none() {
            // Release all records regardless of the last watermarks.
            (sums, failure) = self.steps.finish();
        }
        let RecordSteps {
            filter,
            short_threads,
            unwinding,
            sink,
            ..
        } = self.steps;
        let mut limits = unwinding
            .as_ref()
            .map_or_else(ReachedLimits::default, Unwinding::limits);
        limits.add(Limit::Flood, self.merge.flooded());
        Written {
            rejected: filter.rejected(),
            late: sink.output.total().late,
            most_pending: self.merge.high_water(),
            damaged_bytes: self.merge.damaged_bytes()
                + unwinding.as_ref().map_or(0, Unwinding::damaged_bytes),
            output: sink.output,
            sums,
            sampled: short_threads.map(|short| short.sampled()),
            limits,
            stacks: unwinding.map(Unwinding::into_tally),
            failure,
        }
    }

    fn put_traces(&mut self, good: bool) -> io::Result<()> {
        for piece in self.traces.take() {
            if good {
                self.steps.sink.output.put_trace(&piece)?;
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
            layouts,
            steps,
            ..
        } = self;
        steps.begin_round();
        let mut unwound = Vec::new();
        merge.release(|record| match good {
            true => steps.handle(record, layouts, &mut unwound),
            false => Ok(()),
        })?;
        match good {
            true => steps.end_round(merge.reached()),
            false => Ok(()),
        }
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

impl RecordSteps {
    fn begin_round(&mut self) {
        if let Some(waits) = &mut self.sink.off_cpu {
            waits.take_changes(self.unwinding.as_mut());
        }
    }

    /// Handles the next record. `unwound` is a buffer for its callchain.
    fn handle(
        &mut self,
        record: Released<'_>,
        layouts: &Layouts,
        unwound: &mut Vec<u8>,
    ) -> io::Result<()> {
        if let Some(requests) = &self.requests
            && requests.is_context(&record)
        {
            return match requests.accepts(&record) {
                true => self.push(&record, None, false),
                false => Ok(()),
            };
        }
        if !self.is_wanted(&record) {
            return Ok(());
        }
        if let Some(short) = &mut self.short_threads
            && !short.accepts(&record)
        {
            return Ok(());
        }
        // Decoded once for all users of process events.
        let event = layouts.process_event(&record);
        let event = event.as_ref();
        if let Some(event) = event {
            self.sink.output.notice(event, record.time);
            if let Some(short) = &mut self.short_threads {
                short.handle(event);
            }
            if let Some(requests) = &mut self.requests {
                requests.handle(event);
            }
        }
        let action = match &mut self.unwinding {
            Some(unwinding) => unwinding.handle(&record, event, unwound),
            None => RecordAction::Keep,
        };
        let bytes = match action {
            RecordAction::Keep => record.bytes,
            RecordAction::Replace | RecordAction::Defer => unwound,
            RecordAction::Drop => return Ok(()),
        };
        self.push_contexts(record)?;
        self.push_found(record, layouts)?;
        let record = Released { bytes, ..record };
        self.push(&record, event, action == RecordAction::Defer)
    }

    fn is_wanted(&mut self, record: &Released<'_>) -> bool {
        let waits = self.sink.off_cpu.as_ref();
        (waits.is_some_and(|waits| waits.is_wakeup(record))
            || self.filter.accepts(record.stream, record.bytes))
            && !waits.is_some_and(|waits| waits.is_idle(record))
    }

    /// Writes the process contexts that were found, as of the time of the next record.
    fn push_contexts(&mut self, next: Released<'_>) -> io::Result<()> {
        while let Some((pid, bytes)) =
            (self.requests.as_ref()).and_then(|requests| requests.take_process(next.time))
        {
            self.sink.output.carry_request_context(pid, &bytes);
            let found = Released {
                bytes: &bytes,
                stream: Stream::Samples,
                ..next
            };
            self.push(&found, None, false)?;
        }
        Ok(())
    }

    /// Writes the mappings of interpreted functions and of copied text before the first sample that
    /// needs them.
    fn push_found(&mut self, next: Released<'_>, layouts: &Layouts) -> io::Result<()> {
        let unwinding = self.unwinding.as_mut();
        if let Some(pid) = unwinding.and_then(Unwinding::take_unannounced) {
            let bytes = interpreted::mapping(pid, next.time, &layouts.sideband)?;
            let mapping = sideband(&bytes, next);
            let event = layouts.process_event(&mapping);
            self.push(&mapping, event.as_ref(), false)?;
        }
        while let Some(unwinding) = &mut self.unwinding
            && let Some(copy) = unwinding.take_copied_text()
        {
            let bytes = interpreted::copy(&copy, next.time, &layouts.sideband)?;
            let mapping = sideband(&bytes, next);
            let event = layouts.process_event(&mapping);
            event.iter().for_each(|event| unwinding.handle_event(event));
            self.push(&mapping, event.as_ref(), false)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        record: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        is_deferred: bool,
    ) -> io::Result<()> {
        (self.deferrals).push(record, event, is_deferred, &mut self.sink)
    }

    /// Writes deferred records that are ready. `merged` is the time up to which the merge is
    /// complete.
    fn end_round(&mut self, merged: u64) -> io::Result<()> {
        if let Some(short) = &mut self.short_threads {
            short.look();
        }
        let sink = &mut self.sink;
        for image in (self.unwinding.iter_mut()).flat_map(Unwinding::take_sampled) {
            sink.output.handle_sampled(image);
        }
        if let Some(waits) = &mut sink.off_cpu {
            waits.look_at_sleepers(self.unwinding.as_mut());
        }
        let reached = (self.deferrals).flush_ready(merged, self.unwinding.as_mut(), sink)?;
        if let Some(waits) = &mut sink.off_cpu {
            waits.begin_if_due(reached);
        }
        if let Some(memory) = &mut sink.memory {
            memory.take_looks(reached);
            memory.write_steps(&mut sink.output)?;
        }
        sink.output.reached(reached)
    }

    /// Writes all deferred records and the last sums. Returns the first error.
    fn finish(&mut self) -> (FinalSums, Option<io::Error>) {
        let unwinding = self.unwinding.as_mut();
        let rest = (self.deferrals).flush_ready(u64::MAX, unwinding, &mut self.sink);
        let (sums, failure) = self.sink.finish();
        (sums, rest.err().or(failure))
    }
}

/// Returns a record of the recorder's own, at the time of the next one.
fn sideband<'b>(bytes: &'b [u8], next: Released<'_>) -> Released<'b> {
    Released {
        bytes,
        stream: Stream::Sideband,
        time: next.time,
        cpu: next.cpu,
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
