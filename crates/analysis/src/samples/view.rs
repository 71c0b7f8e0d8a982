//! One sample.

use rprof_records::{Misc, Sample};

use super::{Samples, locate, sample_of};
use crate::groups::SampleRow;
use rprof_profile::{Function, Object};
use rprof_tracepoint::KernelNames;

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleView<'s> {
    /// Name of the thread; without a recorded one, the name that perf shows.
    pub comm: &'s str,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// CPU, if recorded.
    pub cpu: Option<u32>,
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// Period: number of events that the sample stands for.
    pub period: u64,
    /// Index of its event in the file's order.
    pub event_index: usize,
    /// Name of its event.
    pub event: &'s str,
    /// Address at which it was taken.
    pub ip: u64,
    /// True if it has a callchain.
    pub has_chain: bool,
    pub(super) samples: &'s Samples<'s>,
    pub(super) row: &'s SampleRow,
}

/// One frame of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleFrame<'s> {
    /// The address: an offset into the file for images that have one, else the
    /// address in memory. For a caller the return address.
    pub address: u64,
    /// The function.
    pub function: &'s Function,
    /// Distance of `address` from the start of the function that lies there, in bytes; for
    /// inlined calls that is the function they were inlined into.
    pub offset: u64,
    /// The object that the function lies in.
    pub object: &'s Object,
    /// True if the call was inlined into the next outer frame.
    pub inlined: bool,
    /// Source line of `address`, if known and asked for.
    pub line: Option<FrameLine<'s>>,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLine<'s> {
    /// Path of the file. May hold any character: escape it before showing it.
    pub file: &'s str,
    /// The line, from 1; 0 where the code belongs to none.
    pub line: u32,
    /// The column, from 1; 0 where it is unknown.
    pub column: u32,
}

/// Returns the time in nanoseconds at which a sample's addresses are located: the end of the
/// recording for a sample without a time.
pub(super) fn lookup_time(sample: &Sample<'_>) -> u64 {
    sample.time().unwrap_or(u64::MAX)
}

/// Returns true if an address is in the kernel's half of memory.
pub(super) fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

impl<'s> SampleView<'s> {
    /// Iterates over the frames, leaf first. Each inlined call is a frame.
    pub fn frames(&self) -> impl Iterator<Item = SampleFrame<'s>> + use<'s> {
        self.frames_of(usize::MAX)
    }

    /// Iterates over the frames at the first `most` addresses of the stack, leaf first.
    pub fn frames_of(&self, most: usize) -> impl Iterator<Item = SampleFrame<'s>> + use<'s> {
        let samples = self.samples;
        let stack = samples.resolved.stacks.get(self.row.group.stack);
        stack.take(most).flat_map(move |l| samples.frames(l))
    }

    /// Returns the frame of the function at the sample's own address, without calls inlined there;
    /// its line is that of the address.
    pub fn leaf(&self) -> Option<SampleFrame<'s>> {
        let stack = self.samples.resolved.stacks.stack(self.row.group.stack);
        let mut frames = self.samples.frames(stack.leaf()?);
        let innermost = frames.next()?;
        let outermost = frames.next_back().unwrap_or(innermost);
        Some(SampleFrame {
            line: innermost.line,
            ..outermost
        })
    }

    /// Returns the sample as recorded, with the bits of its header, or `None` if
    /// [`Details`](super::Details) asked for nothing.
    pub fn record(&self) -> Option<(Misc, Sample<'s>)> {
        let (record, sample) = sample_of(&self.samples.index, self.row)?;
        Some((record.misc, sample))
    }

    /// Returns the frame at an address of the sample's process: at ADDR, or at an end of a branch,
    /// where the details asked for these. Inlined calls are left out.
    pub fn locate(&self, sample: &Sample<'_>, address: u64) -> Option<SampleFrame<'s>> {
        let samples = self.samples;
        let location = locate(&samples.index, self.pid, lookup_time(sample), address);
        let found = samples.resolved.locations.find(&location)?;
        samples.frames(found).next_back()
    }

    /// Appends the sample's tracepoint as text. Returns false if it is no tracepoint, or the
    /// recording has no description of it. The text may hold any character.
    pub fn print_trace(&self, sample: &Sample<'_>, out: &mut String) -> bool {
        let trace = self.samples.trace.as_ref();
        let format = trace.and_then(|t| t.format(self.event_index));
        let (Some(format), Some(raw)) = (format, sample.raw()) else {
            return false;
        };
        let names = TraceNames { view: self, sample };
        format.print(&raw.to_cow(), &names, out);
        true
    }
}

/// Kernel names for the addresses in a tracepoint's payload.
struct TraceNames<'v, 's> {
    view: &'v SampleView<'s>,
    sample: &'v Sample<'v>,
}

impl KernelNames for TraceNames<'_, '_> {
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)> {
        is_kernel(address).then_some(())?;
        let frame = self.view.locate(self.sample, address)?;
        let name = frame.function.name.as_ref().ok()?;
        Some((name, frame.offset))
    }

    fn kernel_string(&self, address: u64) -> Option<&str> {
        let trace = self.view.samples.trace.as_ref()?;
        trace.kernel_string(address)
    }
}
