//! Threads and samples, aggregated or single.

use crate::stacks::StackId;

/// Id of a thread: an index into [`Profile::threads`](crate::Profile::threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// A thread, or all threads of a name without thread ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Process id; `None` without thread ids.
    pub pid: Option<i32>,
    /// Thread id; `None` without thread ids.
    pub tid: Option<i32>,
    /// Thread name: an index into [`Profile::comms`](crate::Profile::comms).
    pub comm: u32,
    /// Last name of the main thread, if known: an index like `comm`.
    pub process_comm: Option<u32>,
    /// Request that the thread worked on. A thread has an entry for each of its requests, if they
    /// are separated.
    pub request: Option<RequestIds>,
}

/// Ids of a request in OpenTelemetry, in the order of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestIds {
    /// Trace id.
    pub trace: [u8; 16],
    /// Span id.
    pub span: [u8; 8],
}

impl RequestIds {
    /// Returns the trace id in hexadecimal digits.
    ///
    /// ```
    /// use rprof_profile::RequestIds;
    ///
    /// let ids = RequestIds { trace: [0xab; 16], span: [1; 8] };
    /// assert_eq!(ids.trace_hex(), "ab".repeat(16));
    /// assert_eq!(ids.span_hex(), "01".repeat(8));
    /// ```
    #[must_use]
    pub fn trace_hex(&self) -> String {
        hex(&self.trace)
    }

    /// Returns the span id in hexadecimal digits.
    #[must_use]
    pub fn span_hex(&self) -> String {
        hex(&self.span)
    }
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Samples that differ only in time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregatedStack {
    /// Index into [`Profile::events`](crate::Profile::events).
    pub event: usize,
    /// Thread of the samples, in the profile's table.
    pub thread: ThreadId,
    /// Stack of the samples, in the profile's table.
    pub stack: StackId,
    /// Number of samples with this event, thread and stack.
    pub samples: u64,
    /// Sum of the periods, in the event's [unit](crate::EventSummary::unit).
    pub weight: u64,
}

/// Single sample with its time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileSample {
    /// Nanoseconds of the recording's clock; 0 without time.
    pub time: u64,
    /// CPU number, if recorded.
    pub cpu: Option<u32>,
    /// Sampled thread, in the profile's table.
    pub thread: ThreadId,
    /// Call stack, in the profile's table.
    pub stack: StackId,
    /// Index into [`Profile::events`](crate::Profile::events).
    pub event: usize,
    /// Period, in the event's unit.
    pub weight: u64,
}

/// Time of missing samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// CPU number, if recorded.
    pub cpu: Option<u32>,
    /// Cause of the gap.
    pub cause: GapCause,
}

/// Cause of a [`Gap`]: a full buffer, or throttling by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GapCause {
    /// Number of records dropped before because a buffer was full.
    Lost(u64),
    /// The kernel throttled sampling from then on.
    Throttled,
}

/// Single samples by time, in columns: 32 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleColumns {
    times: Vec<u64>,
    cpus: Vec<u32>,
    threads: Vec<ThreadId>,
    stacks: Vec<StackId>,
    events: Vec<u32>,
    weights: Vec<u64>,
}

/// Marks a sample without a CPU number.
const NO_CPU: u32 = u32::MAX;

impl SampleColumns {
    /// Appends a sample. Its time must not precede the last one.
    pub fn push(&mut self, sample: ProfileSample) {
        self.times.push(sample.time);
        self.cpus.push(sample.cpu.unwrap_or(NO_CPU));
        self.threads.push(sample.thread);
        self.stacks.push(sample.stack);
        self.events.push(sample.event as u32);
        self.weights.push(sample.weight);
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns the sample at an index.
    pub fn get(&self, index: usize) -> Option<ProfileSample> {
        Some(ProfileSample {
            time: *self.times.get(index)?,
            cpu: self.cpu(index),
            thread: *self.threads.get(index)?,
            stack: *self.stacks.get(index)?,
            event: *self.events.get(index)? as usize,
            weight: *self.weights.get(index)?,
        })
    }

    /// Iterates over the samples.
    pub fn iter(&self) -> impl Iterator<Item = ProfileSample> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Times in nanoseconds, by index of the sample.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// Weights, by index of the sample.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// Stacks, by index of the sample.
    pub fn stacks(&self) -> &[StackId] {
        &self.stacks
    }

    /// Threads, by index of the sample.
    pub fn threads(&self) -> &[ThreadId] {
        &self.threads
    }

    /// Returns the CPU number of a sample, if recorded.
    pub fn cpu(&self, index: usize) -> Option<u32> {
        Some(*self.cpus.get(index)?).filter(|cpu| *cpu != NO_CPU)
    }

    pub(crate) fn replace_stacks(
        &mut self,
        event: usize,
        other: impl Fn(ThreadId, StackId) -> Option<StackId>,
    ) {
        let threads = self.events.iter().zip(&self.threads);
        for ((of, thread), stack) in threads.zip(&mut self.stacks) {
            if *of as usize == event {
                *stack = other(*thread, *stack).unwrap_or(*stack);
            }
        }
    }

    pub(crate) fn filtered(self, is_wanted: impl Fn(usize, StackId) -> bool) -> SampleColumns {
        let wanted: Vec<ProfileSample> = (self.iter())
            .filter(|sample| is_wanted(sample.event, sample.stack))
            .collect();
        SampleColumns::from_samples(&wanted)
    }

    pub(crate) fn move_event(&mut self, from: usize, to: usize) {
        for event in &mut self.events {
            if *event as usize == from {
                *event = to as u32;
            }
        }
    }

    pub(crate) fn from_samples(samples: &[ProfileSample]) -> SampleColumns {
        let mut columns = SampleColumns::default();
        samples.iter().for_each(|sample| columns.push(*sample));
        columns
    }
}
