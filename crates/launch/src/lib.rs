//! Starts commands, finds running targets, and reads processes from /proc.
//!
//! The crate does not profile.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | [`Launcher`], [`Child`]: a program held before its exec |
//! | [`target`] | [`Target`]: processes or CPUs; finds their threads, waits for their exit |
//! | [`cpu_time`] | [`CpuTimeWatcher`]: CPU time from the kernel's accounting |
//! | [`delays`] | [`DelayWatcher`]: time that targets waited for a CPU |
//! | [`run_delay`] | [`RunDelays`]: time that single threads waited for a CPU |
//! | [`procfs`] | [`Procfs`](procfs::Procfs), [`MapsReader`]: processes, threads, mappings |
//! | `standard_output` | [`standard_output_was_closed`]: detects a closed standard output |
//!
//! # Examples
//! A held command has a pid before its program runs:
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
//! Threads of running processes:
//!
//! ```
//! use rprof_launch::{Target, ThreadSelection};
//!
//! let target = Target::Processes(vec![std::process::id()]);
//! let selection = ThreadSelection::from_target(&target, false);
//! let selection = selection.expect("it is no CPU and no command");
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
    Cgroup, CgroupError, Target, TargetExitWatcher, TargetThread, ThreadSelection, wait_for_targets,
};
