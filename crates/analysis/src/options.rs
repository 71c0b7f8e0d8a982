//! Options of an analysis.

use rprof_profile::Filter;

/// Options of an analysis: filter, granularity, threads.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Filter that samples have to pass.
    pub filter: Filter,
    /// Tell samples apart by process and thread, not by thread name alone.
    pub by_thread: bool,
    /// Keep the address of each frame, with its line and inline depth: see
    /// [`Profile::frame`](rprof_profile::Profile::frame). Stacks that differ in addresses alone
    /// are distinct then: of a large recording this takes several times the memory.
    pub addresses: bool,
    /// Tell inlined calls from others by their
    /// [inline depth](rprof_profile::Frame::inline_depth), without keeping addresses.
    pub inlined: bool,
    /// Leave out callers, which are not even read: each stack is its leaf alone. A
    /// [focus](Filter::focus) has no effect on them then.
    pub leaves_only: bool,
    /// Keep the samples one by one, with time and CPU: see
    /// [`Profile::samples`](rprof_profile::Profile::samples).
    pub columns: bool,
    /// Keep the samples one by one in a tenth of the memory, to be read thread by thread: see
    /// [`Profile::streams`](rprof_profile::Profile::streams).
    pub streams: bool,
    /// Tell functions apart by line as well, where the symbolizer tells lines.
    pub by_line: bool,
    /// Form of the samples of waits, where the recording has them.
    pub waits: WaitOptions,
    /// Look up inlined calls and lines in the [objects of the filter](Filter::objects) alone, where there are some: callers in other
    /// objects have the functions of symbol tables.
    pub details_of_filter: bool,
    /// Threads to use; 0 for as many as there are cores.
    pub threads: usize,
}

/// Form of the samples of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitOptions {
    /// Make the waits of idle threads one block: see [`Profile::fold_idle`](rprof_profile::Profile::fold_idle). Threads are
    /// told apart by their numbers for it. Nothing is made one where samples are chosen by their stacks.
    pub fold_idle: bool,
    /// Leave out the samples of other events, whatever [`Filter::events`] says.
    pub alone: bool,
}

impl Options {
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => rprof_parallel::available(),
            n => n,
        }
    }
}

/// Granularity of functions and objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SymbolOptions {
    /// Tells functions apart by line as well, where the symbolizer has lines.
    pub(crate) by_line: bool,
    /// Tells objects of one name apart by build-id.
    pub(crate) by_build_id: bool,
    /// Number of threads to use.
    pub(crate) threads: usize,
}

/// Granularity of the sample pass beside stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassOptions {
    /// Groups samples by process and thread, not by thread name alone.
    pub(crate) by_thread: bool,
    /// Reads no callers.
    pub(crate) leaves_only: bool,
    /// Rows that are kept for the samples one by one.
    pub(crate) rows: SampleRows,
    /// Keeps addresses as they are, even where all addresses of a function have one answer.
    pub(crate) addresses: bool,
}

/// Rows for samples one by one, which pass two keeps beside the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SampleRows {
    /// Nothing.
    #[default]
    None,
    /// Time, CPU, group and period, in a few bytes.
    Compact,
    /// A [`SampleRow`](crate::groups::SampleRow), which finds the record again.
    Whole,
}
