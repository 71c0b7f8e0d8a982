//! The live pipeline: from the kernel's rings to a perf.data file.
//!
//! ```text
//!   Session (a drain thread for each CPU) --> batches --> writer thread: merge, unwind --> output
//!        ^                                                                      file, stream, or
//!   this thread waits for the program, or for a stop                            a RecordWriter
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`recording`] | [`Recording`]: from start to summary |
//! | [`options`] | [`RecordOptions`], [`RecordError`]: where to and how, and what can go wrong |
//! | [`pipeline`] | the writer thread: [`Merge`], deferred samples |
//! | `trace` | traces of tracing units, as records |
//! | `unwind` | registers and stack bytes of samples to callchains |
//! | `output` | files and their [rotation](RotationPolicy), embedded files, tallies |
//! | [`synthesize`] | records of what was there before, and of the kernel |
//! | `offcpu` | [`ThreadTime`]: switches of threads to samples of their waits |
//! | `backlog` | whether samples pile up before the writer thread |
//! | `limits` | [`Limit`]: what programs may cost the recorder, and whether more was asked |
//! | `beside` | counts that are taken beside the samples |
//! | `run_delay` | time for which threads waited for a CPU, as the scheduler counts it |
//! | `described` | events as a file describes them |
//! | `mapped_files` | the files behind mappings |
//! | [`machine`] | features of the file's header that describe this machine |
//! | [`tracing_data`] | formats of tracepoints, for readers |
//! | [`replay`](mod@replay) | the same on batches from somewhere else, to measure it |
//! | `recent` | [`RecentRecords`]: the last records of a recording without a file |
//! | [`progress`] | [`Progress`] and [`WriterState`], while it goes on |
//! | [`summary`] | [`Summary`], at the end |
//! | [`throttling`] | [`Throttling`]: when the kernel paused sampling |
//!
//! Nothing here prints or decides how things are shown.

mod backlog;
mod beside;
mod cpu_time;
mod described;
mod limits;
mod losses;
pub mod machine;
mod mapped_files;
mod offcpu;
pub mod options;
mod output;
pub mod pipeline;
pub mod progress;
mod recent;
pub mod recording;
pub mod replay;
mod run_delay;
pub mod summary;
pub mod synthesize;
pub mod throttling;
mod trace;
pub mod tracing_data;
mod unwind;

pub use limits::{Limit, ReachedLimits};
pub use losses::LossAdvice;
pub use offcpu::ThreadTime;
pub use options::{Output, RecordError, RecordOptions, Remains};
pub use output::{EmbeddedName, Embedding, NotEmbedded, Notice, RotationPolicy, WriterFactory};
pub use pipeline::merge::Merge;
pub use progress::{Progress, WriterState};
pub use recent::{RecentRecords, RecentSnapshot, RecentWriter};
pub use recording::Recording;
pub use replay::{Replay, Replayed, replay};
pub use summary::Summary;
pub use throttling::{SuggestedRate, Throttling};
pub use unwind::{StackCause, StackTally};
