//! Targets: processes or CPUs to profile, their current threads, and their exit.
//!
//! | module | holds |
//! |---|---|
//! | `scope` | [`Target`], [`TargetThread`] |
//! | `selection` | [`ThreadSelection`]: the threads of a target, from /proc |
//! | `exited` | [`TargetExitWatcher`]: detects the exit of all targets |
//! | `cgroup` | [`Cgroup`]: directories of control groups |

mod cgroup;
mod exited;
mod scope;
mod selection;

pub use cgroup::{Cgroup, CgroupError};
pub use exited::{TargetExitWatcher, wait_for_targets};
pub use scope::{Target, TargetThread};
pub use selection::ThreadSelection;
