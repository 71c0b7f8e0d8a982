//! Options of an analysis.

use rprof_profile::{Filter, RequestKey};

/// Options of an analysis.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Filter on samples.
    pub filter: Filter,
    /// Separate threads by process and thread id, not by name alone.
    pub by_thread: bool,
    /// Keep each frame's address, line and inline depth: see
    /// [`Profile::frame`](rprof_profile::Profile::frame). Stacks that differ only in addresses stay
    /// distinct, in several times the memory.
    pub addresses: bool,
    /// Separate inlined calls from others by [inline depth](rprof_profile::Frame::inline_depth),
    /// without addresses.
    pub inlined: bool,
    /// Skip callers: each stack is its leaf alone. A [focus](Filter::focus) then ignores callers.
    /// With [`by_language`](Self::by_language), callers stay if interpreter code may be folded.
    pub leaves_only: bool,
    /// Keep single samples, with time and CPU: see
    /// [`Profile::samples`](rprof_profile::Profile::samples).
    pub columns: bool,
    /// Keep single samples in a tenth of the memory, for reading by thread: see
    /// [`Profile::streams`](rprof_profile::Profile::streams).
    pub streams: bool,
    /// Separate functions by line as well, if the symbolizer supplies lines.
    pub by_line: bool,
    /// Apply filters on leaves as if interpreter code were
    /// [folded](rprof_profile::Profile::fold_languages). The profile itself is not folded.
    pub by_language: bool,
    /// Weigh samples by latency: divide each period by the number of running threads, and count
    /// waits only while none ran. Needs a [suitable recording](crate::tells_latency). Idle threads
    /// are then not merged.
    pub latency: bool,
    /// Name threads by their requests: samples of one request are added up, of any thread.
    pub by_request: Option<RequestKey>,
    /// Separate the requests of each thread: see [`Thread::request`](rprof_profile::Thread::request).
    pub request_ids: bool,
    /// Treatment of wait samples.
    pub waits: WaitOptions,
    /// Treatment of memory over time, in recordings of memory.
    pub memory: MemoryOptions,
    /// Look up inlined calls and lines only in the [objects of the filter](Filter::objects), if
    /// any. Callers in other objects get functions from symbol tables.
    pub details_of_filter: bool,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
}

/// Treatment of memory over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MemoryOptions {
    /// Leave it out: the recording's own moments are its events.
    #[default]
    Moments,
    /// Show memory in use at a time, as the event of memory at the end. With two times, only memory
    /// gained after the first and still in use at the second.
    At(Option<MemoryTime>, MemoryTime),
    /// Show memory at the end, with all changes in [columns](Options::columns): see
    /// [`Profile::settle_memory`](rprof_profile::Profile::settle_memory).
    OverTime,
}

/// Time in a recording of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryTime {
    /// Nanoseconds after the first snapshot, at the start of the recording.
    AfterStart(u64),
    /// Nanoseconds before the last snapshot, at the end of the recording.
    BeforeEnd(u64),
    /// Share of the time between these two, from 0 to 1.
    Share(f64),
}

impl MemoryTime {
    /// Returns the time of the recording's clock, given the first and last snapshot.
    pub(crate) fn resolve(self, (first, last): (u64, u64)) -> u64 {
        match self {
            MemoryTime::AfterStart(after) => first.saturating_add(after),
            MemoryTime::BeforeEnd(before) => last.saturating_sub(before),
            MemoryTime::Share(share) => {
                first.saturating_add((last.saturating_sub(first) as f64 * share) as u64)
            }
        }
    }
}

/// Treatment of wait samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitOptions {
    /// Merge the waits of idle threads into one block: see
    /// [`Profile::fold_idle`](rprof_profile::Profile::fold_idle). Separates threads by id. Filters
    /// on stacks, and on reasons without `idle`, turn it off.
    pub fold_idle: bool,
    /// Omit all other events, even if [`Filter::events`] accepts them.
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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SymbolOptions {
    /// See [`Options::by_line`].
    pub(crate) by_line: bool,
    /// Separates objects of one name by build-id.
    pub(crate) by_build_id: bool,
    pub(crate) threads: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassOptions {
    pub(crate) by_thread: bool,
    pub(crate) leaves_only: bool,
    pub(crate) rows: SampleRows,
    /// Keeps each address, even if its whole function has one symbol.
    pub(crate) addresses: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SampleRows {
    #[default]
    None,
    /// Time, CPU, group and period, in a few bytes.
    Compact,
    /// A [`SampleRow`](crate::groups::SampleRow) with the record's position.
    Whole,
}
