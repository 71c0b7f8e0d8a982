//! Executable mappings of a running process.
//!
//! perf events report only new mappings. Earlier ones come from `/proc/PID/maps`, in one of two
//! ways:
//!
//! - Linux 6.11 and later answer queries (`PROCMAP_QUERY`), including the file's build-id. Only
//!   executable mappings are queried, so a process with ten thousand others costs no more than one
//!   with none.
//! - On older kernels, the text is parsed.
//!
//! Names are as in MMAP2 records: `//anon` for anonymous memory, even if it has a name.
//!
//! | module | holds |
//! |---|---|
//! | `mapping` | [`ExistingMapping`] |
//! | `reader` | [`MapsReader`]: uses queries if available, else the text |
//! | `query` | `PROCMAP_QUERY` |
//! | `text` | parser of `/proc/PID/maps` |

mod mapping;
mod query;
mod reader;
mod text;

pub use mapping::ExistingMapping;
pub use reader::{MapsCounts, MapsReader};
