//! Executable mappings of a running process.
//!
//! perf events report only new mappings. Earlier ones come from `/proc/PID/maps`:
//!
//! - Linux 6.11 and later answer queries (`PROCMAP_QUERY`), including the file's build-id. Only
//!   executable mappings are queried, so ten thousand others cost nothing.
//! - On older kernels, the text is parsed.
//!
//! Names are as in MMAP2 records: `//anon` for anonymous memory.

mod mapping;
mod query;
mod reader;
mod text;

pub use mapping::ExistingMapping;
pub use reader::{MapsCounts, MapsReader};
