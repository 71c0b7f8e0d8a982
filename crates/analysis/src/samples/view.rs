//! [`SampleView`]: one sample.

use rprof_profile::is_kernel_address;
use rprof_records::{Misc, Sample};
use rprof_tracepoint::KernelNames;

use crate::groups::SampleRow;
use crate::samples::frame::SampleFrame;
use crate::samples::lookup::{locate, lookup_time, sample_of};
use crate::samples::store::SampleStore;

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
    /// Index of its event in file order.
    pub event_index: usize,
    /// Name of its event.
    pub event: &'s str,
    /// Instruction pointer.
    pub ip: u64,
    /// True if it has a callchain.
    pub has_chain: bool,
    store: &'s SampleStore<'s>,
    row: &'s SampleRow,
}

impl<'s> SampleView<'s> {
    pub(super) fn of_row(store: &'s SampleStore<'_>, i: usize) -> SampleView<'s> {
        let (row, name) = (&store.resolved.rows[i], store.name_of[i]);
        let (pid, tid) = (row.group.pid, row.group.tid);
        SampleView {
            comm: &store.names[name as usize],
            pid,
            tid,
            cpu: row.cpu,
            time: row.time,
            period: row.period,
            event_index: row.group.event as usize,
            event: &store.event_names[row.group.event as usize],
            ip: row.ip,
            has_chain: row.has_chain,
            store,
            row,
        }
    }

    /// Iterates over the frames, leaf first. Each inlined call is a frame.
    pub fn frames(&self) -> impl Iterator<Item = SampleFrame<'s>> + use<'s> {
        self.frames_of_innermost(usize::MAX)
    }

    /// Iterates over the frames at the innermost `most` addresses, leaf first, with inlined calls.
    pub fn frames_of_innermost(
        &self,
        most: usize,
    ) -> impl Iterator<Item = SampleFrame<'s>> + use<'s> {
        let store = self.store;
        let stack = store.resolved.stacks.get(self.row.group.stack);
        stack.take(most).flat_map(move |l| store.frames(l))
    }

    /// Returns the function at the sample's own address, with that address's line. Skips inlined
    /// calls.
    pub fn leaf(&self) -> Option<SampleFrame<'s>> {
        let stack = self.store.resolved.stacks.stack(self.row.group.stack);
        let mut frames = self.store.frames(stack.leaf()?);
        let innermost = frames.next()?;
        let outermost = frames.next_back().unwrap_or(innermost);
        Some(SampleFrame {
            line: innermost.line,
            ..outermost
        })
    }

    /// Returns the recorded sample with its header bits. `None` without requested
    /// [`Details`](super::Details).
    pub fn record(&self) -> Option<(Misc, Sample<'s>)> {
        let (record, sample) = sample_of(&self.store.index, self.row)?;
        Some((record.misc, sample))
    }

    /// Returns the frame at an address of the sample's process: ADDR or an end of a branch, if the
    /// details request it. Skips inlined calls.
    pub fn locate(&self, sample: &Sample<'_>, address: u64) -> Option<SampleFrame<'s>> {
        let store = self.store;
        let location = locate(&store.index, self.pid, lookup_time(sample), address);
        let found = store.resolved.locations.find(&location)?;
        store.frames(found).next_back()
    }

    /// Appends the sample's tracepoint as text. Returns false if it is not a tracepoint or has no
    /// description. The text may contain any character.
    pub fn print_trace(&self, sample: &Sample<'_>, out: &mut String) -> bool {
        let trace = self.store.trace.as_ref();
        let format = trace.and_then(|t| t.format(self.event_index));
        let (Some(format), Some(raw)) = (format, sample.raw()) else {
            return false;
        };
        let names = TraceNames { view: self, sample };
        format.print(&raw.to_cow(), &names, out);
        true
    }
}

struct TraceNames<'v, 's> {
    view: &'v SampleView<'s>,
    sample: &'v Sample<'v>,
}

impl KernelNames for TraceNames<'_, '_> {
    fn kernel_function(&self, address: u64) -> Option<(&str, u64)> {
        is_kernel_address(address).then_some(())?;
        let frame = self.view.locate(self.sample, address)?;
        let name = frame.function.name.as_ref().ok()?;
        Some((name, frame.offset))
    }

    fn kernel_string(&self, address: u64) -> Option<&str> {
        let trace = self.view.store.trace.as_ref()?;
        trace.kernel_string(address)
    }
}
