//! Targets: what is watched, which threads that is now, and when all of them have ended.
//!
//! | module | holds |
//! |---|---|
//! | `scope` | [`Target`], [`TargetThread`] |
//! | `selection` | [`Selection`]: the threads of a target, from /proc |
//! | `exited` | [`TargetExitWatcher`]: when all of them have ended |
//! | `cgroup` | [`Cgroup`]: directories of control groups |

mod cgroup;
mod exited;
mod scope;
mod selection;

pub use cgroup::{Cgroup, CgroupError};
pub use exited::{TargetExitWatcher, wait_for_targets};
pub use scope::{Target, TargetThread};
pub use selection::Selection;
