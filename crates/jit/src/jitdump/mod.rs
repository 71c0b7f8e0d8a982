//! Jitdumps: binary logs of a runtime's code.
//!
//! Format: `tools/perf/Documentation/jitdump-specification.txt` in the kernel's source, revision 2.
//! A header and records, in either byte order. The runtime maps a page of the file executably so
//! that recorders find it. Times are of the writer's `CLOCK_MONOTONIC`, unless the header selects
//! the processor's counter.
//!
//! | module | contents |
//! |---|---|
//! | `dump` | [`JitDump`]: a complete file, by address and time |
//! | `live` | [`LiveDump`]: a growing file, for unwinding during recording |
//! | `unwinding` | [`JitUnwinding`]: the `.eh_frame` of one function |
//! | `code` | the machine code of a function |
//! | `format` | header and records; [`without_code`], [`to_kernel_clock`]: changed copies |

mod code;
mod dump;
mod format;
mod live;
#[cfg(test)]
pub(crate) mod tests;
mod unwinding;

pub use code::{JitBytes, code_of};
pub use dump::JitDump;
pub use format::{DumpError, to_kernel_clock, without_code};
pub use live::{LiveCode, LiveDump};
pub use unwinding::JitUnwinding;
