//! Reads /proc (proc(5)): processes, their threads, names, parents, users and mappings.
//!
//! [`Procfs`] is one mounted /proc. For an exited process, functions return `None` or skip it; they
//! return an error only if documented.
//!
//! ```
//! use rprof_launch::procfs::Procfs;
//!
//! let proc = Procfs::default();
//! let pid = std::process::id();
//! assert!(proc.thread_ids(pid).contains(&pid));
//! let stat = proc.stat(pid).expect("this process runs");
//! assert_eq!(proc.comm(pid, pid), Some(stat.comm));
//! ```

mod kernel_stack;
mod maps;
mod mounts;
mod stat;
mod status;
mod tasks;

pub use kernel_stack::KernelPlace;
pub use maps::{ExistingMapping, MapsCounts, MapsReader};
pub use mounts::Mount;
pub use stat::TaskStat;
pub use status::TaskStatus;
pub use tasks::{ClockOffsets, Procfs};
