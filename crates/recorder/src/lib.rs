//! The recording pipeline: from the kernel's ring buffers to a perf.data file.
//!
//! ```text
//!   Session (a drain thread for each CPU) --> batches --> writer thread: merge, unwind --> output
//!        ^                                                                      file, stream, or
//!   this thread waits for the program, or for a stop                            a RecordWriter
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`recording`] | [`Recording`]: from start to summary |
//! | [`options`] | [`RecordOptions`] and [`RecordError`] |
//! | [`pipeline`] | the writer thread: [`Merge`], deferred samples |
//! | `trace` | AUX traces, as records |
//! | `unwind` | unwinding of registers and stack bytes to callchains |
//! | `output` | files and their [rotation](RotationPolicy), embedded files, tallies |
//! | [`synthesize`] | records for existing processes and for the kernel |
//! | `memory` | [`MemoryUse`]: page faults to samples of resident memory |
//! | `summed` | samples that stand for many page faults or allocations |
//! | `offcpu` | [`ThreadTime`]: context switches to wait samples |
//! | `backlog` | detects that the writer thread is behind |
//! | `limits` | [`Limit`]: limits on the recorder's own cost |
//! | `beside` | counters that run together with sampling |
//! | `run_delay` | time that threads waited for a CPU, from scheduler statistics |
//! | `described` | event descriptions for the file |
//! | `mapped_files` | the files behind mappings |
//! | [`machine`] | header features that describe the machine |
//! | [`tracing_data`] | tracepoint formats for readers |
//! | [`replay`](mod@replay) | runs the writer on given batches, for benchmarks |
//! | `recent` | [`RecentRecords`]: an in-memory ring of the last records |
//! | [`progress`] | [`Progress`] and [`WriterState`] of a running recording |
//! | [`summary`] | [`Summary`]: the result |
//! | [`throttling`] | [`Throttling`]: when the kernel paused sampling |
//!
//! [`Recording::start`] records a command, [`Recording::attach`] a running target, and
//! [`Recording::finish`] returns the summary. The example `record` is a complete program.
//!
//! The crate prints nothing and formats no output for users.

mod allocations;
mod backlog;
mod beside;
mod cpu_time;
mod described;
mod distinct_stacks;
mod limits;
mod losses;
pub mod machine;
mod mapped_files;
mod memory;
mod offcpu;
pub mod options;
mod output;
pub mod pipeline;
pub mod progress;
mod recent;
pub mod recording;
pub mod replay;
mod requests;
mod run_delay;
mod short_threads;
pub mod summary;
mod summed;
pub mod synthesize;
pub mod throttling;
mod trace;
pub mod tracing_data;
mod unwind;

pub use allocations::{Allocated, AllocationProbe, AllocationSource, ProbeKind};
pub use limits::{Limit, ReachedLimits};
pub use losses::LossAdvice;
pub use memory::{MemoryUse, RELEASES, huge_pages};
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
pub use unwind::{InterpretedTally, StackCause, StackTally};
