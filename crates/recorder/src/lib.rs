//! The live pipeline: from the kernel's rings to a perf.data file.
//!
//! ```text
//!   Session (a drain thread for each CPU) --> batches --> writer thread: Merge --> FileWriter
//!        ^                                                    |
//!   this thread waits for the program, or for a stop        Tally, Images
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`recording`] | [`Recording`]: from start to summary |
//! | [`options`] | [`RecordOptions`], [`RecordError`]: where to and how, and what can go wrong |
//! | [`merge`] | [`Merge`]: batches of all CPUs into one order of time |
//! | `outgoing` | records that wait for one before them |
//! | [`existing`] | records that say what was there before the recording |
//! | [`files`] | the file that is written, and those that follow it: [`Switch`] |
//! | `state` | what lives, for the beginning of a further file |
//! | `tally` | counts of what went into a file |
//! | [`kernel_maps`] | records that say where the kernel and its modules lie |
//! | [`images`] | the build-ids of what was mapped |
//! | `keeping` | files that a report needs and that will be gone by then |
//! | [`machine`] | what the file's header says of this machine |
//! | [`summary`] | [`Summary`] and [`Progress`]: what there is to tell |
//! | [`tracing_data`] | what readers need to understand tracepoints |
//! | [`throttling`] | [`Throttling`]: when the kernel paused sampling |
//!
//! Nothing here prints or decides how things are shown.

pub mod existing;
pub mod files;
pub mod images;
mod keeping;
pub mod kernel_maps;
pub mod machine;
pub mod merge;
pub mod options;
mod outgoing;
pub mod recording;
mod sink;
mod state;
pub mod summary;
mod tally;
pub mod throttling;
pub mod tracing_data;
mod unwinding;
mod writing;

pub use files::Switch;
pub use merge::Merge;
pub use options::{Output, RecordError, RecordOptions, Stopped};
pub use recording::Recording;
pub use summary::{Progress, Summary, WriterState};
pub use throttling::{SlowEnough, Throttling};
pub use unwinding::{StackCause, StackTally};
