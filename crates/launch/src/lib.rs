//! The command that is watched, targets among what runs already, and the one reader of /proc.
//!
//! The crate starts and finds processes; it does not know how they are watched.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | [`Launcher`], [`Child`]: a program that is held at its exec until it is released |
//! | [`target`] | [`Target`]: what is watched, its threads, and when all of them have ended |
//! | [`cpu_time`] | [`CpuTimeWatcher`]: what was used, by the kernel's accounts |
//! | [`delays`] | [`DelayWatcher`]: time without a CPU, of all that is recorded |
//! | [`run_delay`] | [`RunDelays`]: time for which threads waited for a CPU |
//! | [`procfs`] | [`Procfs`](procfs::Procfs), [`MapsReader`]: processes, threads, mappings |
//! | `standard_output` | [`standard_output_was_closed`]: before the program began |
//!
//! # Examples
//! A command is there, with its pid, before anything of it has run:
//!
//! ```
//! use rprof_launch::procfs::Procfs;
//! use rprof_launch::Launcher;
//!
//! let mut child = Launcher::new("true").spawn()?;
//! // Events can be opened for the pid now.
//! assert!(Procfs::default().exists(child.pid() as u32));
//! child.release()?;
//! assert!(child.wait()?.success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The threads of processes that run already:
//!
//! ```
//! use rprof_launch::{Selection, Target};
//!
//! let target = Target::Processes(vec![std::process::id()]);
//! let selection = Selection::from_target(&target, false).expect("it is no CPU and no command");
//! assert!(!selection.threads().is_empty());
//! ```

pub mod command;
pub mod cpu_time;
pub mod delays;
pub mod procfs;
pub mod run_delay;
mod standard_output;
pub mod target;
mod wait;

pub use command::{
    Child, ExecError, LaunchError, Launcher, ResourceUsage, WaitOutcome, find_program,
    signal_is_ignored,
};
pub use cpu_time::CpuTimeWatcher;
pub use delays::{Delay, DelayWatcher, Delayed};
pub use procfs::{ExistingMapping, MapsReader};
pub use run_delay::{RunDelay, RunDelays};
pub use standard_output::standard_output_was_closed;
pub use target::{
    Cgroup, CgroupError, Selection, Target, TargetExitWatcher, TargetThread, wait_for_targets,
};
