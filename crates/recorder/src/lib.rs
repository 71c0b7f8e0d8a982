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
//! | [`merge`] | [`Merge`]: batches of all CPUs into one order of time |
//! | [`kernel_maps`] | records that say where the kernel and its modules lie |
//! | [`images`] | the build-ids of what was mapped |
//! | [`machine`] | what the file's header says of this machine |
//! | [`summary`] | [`Summary`] and [`Progress`]: what there is to tell |
//!
//! Nothing here prints or decides how things are shown.

pub mod images;
pub mod kernel_maps;
pub mod machine;
pub mod merge;
pub mod recording;
mod sink;
pub mod summary;
mod writing;

pub use merge::Merge;
pub use recording::{Output, RecordError, RecordOptions, Recording, Stopped};
pub use summary::{Progress, Summary};
