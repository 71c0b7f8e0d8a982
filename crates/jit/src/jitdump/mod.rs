//! Jitdumps: the binary file in which a runtime writes which code it made, and when.
//!
//! The format is that of `tools/perf/Documentation/jitdump-specification.txt` in the kernel's source,
//! revision 2: a header, then records that state their length, in either byte order. The runtime maps a
//! page of the file executably, by which recorders find it.
//!
//! Code is there from the time of its record on. Times are of `CLOCK_MONOTONIC`, unless the header says
//! that they are of the processor's own counter.
//!
//! | module | idea |
//! |---|---|
//! | `dump` | [`JitDump`]: a whole file, by address and time |
//! | `live` | [`LiveDump`]: a file that is still being written, for unwinding meanwhile |
//! | `unwinding` | [`JitUnwinding`]: the `.eh_frame` of one piece of code |
//! | `strip` | [`without_code`]: a file without the machine code in it |
//! | `code` | the machine code of a function |
//! | `format` | header and records |

mod code;
mod dump;
mod format;
mod live;
mod strip;
#[cfg(test)]
pub(crate) mod tests;
mod unwinding;

pub use code::{JitBytes, code_of};
pub use dump::JitDump;
pub use format::DumpError;
pub use live::{LiveCode, LiveDump};
pub use strip::without_code;
pub use unwinding::JitUnwinding;
