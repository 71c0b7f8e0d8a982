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
    /// Tell functions apart by line as well, where the symbolizer tells lines.
    pub by_line: bool,
    /// Look up inlined calls and lines in the [objects of the filter](Filter::objects) alone, where there are some: callers in other
    /// objects have the functions of symbol tables.
    pub details_of_filter: bool,
    /// Threads to use; 0 for as many as there are cores.
    pub threads: usize,
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
    /// Keeps a row for each sample.
    pub(crate) per_sample: bool,
    /// Keeps addresses as they are, even where all addresses of a function have one answer.
    pub(crate) addresses: bool,
}
