//! What an analysis is asked for.

use rprof_profile::Filter;

/// How to analyse.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which samples count.
    pub filter: Filter,
    /// Tell samples apart by process and thread, not by thread name alone.
    pub by_task: bool,
    /// Tell functions apart by line as well, where the symbolizer tells lines.
    pub by_line: bool,
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

/// Granularity of the sample pass beside stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassOptions {
    /// Groups samples by process and thread, not by thread name alone.
    pub(crate) by_thread: bool,
    /// Keeps a row for each sample.
    pub(crate) per_sample: bool,
}
