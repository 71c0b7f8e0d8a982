//! Probes on code: `uprobe:/path/to/program:function+offset`, `kprobe:function+offset`.
//!
//! They are events of the PMUs `uprobe` and `kprobe` (Linux 4.17), which need no name in tracefs
//! as those of `perf probe` do.
//!
//! | module | holds |
//! |---|---|
//! | `syntax` | the four kinds, and their PMUs |
//! | `uprobe` | probes on programs: path and file offset |
//! | `kprobe` | probes on the kernel: function or address |
//! | `location` | `function+offset` |

mod kprobe;
mod location;
mod syntax;
mod uprobe;

pub(crate) use syntax::{is_probe, parse};
