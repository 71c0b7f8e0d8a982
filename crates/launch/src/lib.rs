//! The command that is watched, targets among what runs already, and the one reader of /proc.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | [`Launcher`], [`Child`]: a program that is held at its exec until it is let go |
//! | [`target`] | [`Target`]: what is watched, its threads, and when all of them have ended |
//! | [`procfs`] | /proc: processes, threads, mappings |

pub mod command;
mod errno_text;
pub mod procfs;
pub mod target;
mod wait;

pub use command::{Child, ExecError, LaunchError, Launcher, Waited};
pub use procfs::{ExistingMapping, MapsReader};
pub use target::{Attached, Cgroup, CgroupError, Selection, Target, TargetExitWatcher};
