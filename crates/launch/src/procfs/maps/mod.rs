//! Executable mappings of a process that runs already.
//!
//! perf events report mappings as they are made. Those made before stand in `/proc/PID/maps`, which is
//! read in one of two ways:
//!
//! - Linux 6.11 answers queries about it (`PROCMAP_QUERY`), with the file's build-id in the
//!   answer. Only executable mappings are queried, so a process with ten thousand others
//!   costs no more than one with none.
//! - Before, its text is read.
//!
//! Names are as in MMAP2 records: `//anon` for memory without a file, whatever name it was given.
//!
//! | module | holds |
//! |---|---|
//! | `mapping` | [`ExistingMapping`] |
//! | `reader` | [`MapsReader`]: by query where the kernel has it, else from the text |
//! | `query` | `PROCMAP_QUERY` |
//! | `text` | the text of `/proc/PID/maps` |

mod mapping;
mod query;
mod reader;
mod text;

pub use mapping::ExistingMapping;
pub use reader::{MapsCounts, MapsReader};
