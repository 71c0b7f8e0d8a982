//! Probes on code: `uprobe:/path/to/program:function+offset`, `kprobe:function+offset`.
//!
//! They are events of the PMUs `uprobe` and `kprobe` (Linux 4.17). Unlike probes of `perf probe`,
//! they need no name in tracefs.
//!
//! | module | holds |
//! |---|---|
//! | `syntax` | the four types, and their PMUs |
//! | `place` | probes on programs: path and file offset; on the kernel: function or address |

mod place;
mod syntax;

pub(crate) use syntax::{is_probe, parse};
