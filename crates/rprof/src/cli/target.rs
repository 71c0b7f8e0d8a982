//! Arguments that select the recorded processes, threads or CPUs.

use clap::Args;

use super::reading::TaskFilterArgs;
use super::values::{self, CpuList};

/// Target: one of these, or a COMMAND. With both, recording ends when the COMMAND exits.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Record the whole system
    #[arg(short = 'a', long, conflicts_with_all = ["processes", "threads", "user"])]
    pub(crate) all_cpus: bool,

    /// Record these running processes, with all threads and future child processes
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["threads", "cgroups", "user"])]
    pub(crate) processes: Vec<u32>,

    /// With -p, also record all existing descendants of the processes
    #[arg(long, requires = "processes")]
    pub(crate) with_children: bool,

    /// Record only these running threads
    #[arg(short = 't', long = "tid", value_name = "TID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["cgroups", "user"])]
    pub(crate) threads: Vec<u32>,

    /// Record only on these CPUs, such as `0-3,8`; without another target, all processes there
    #[arg(short = 'C', long = "cpu", value_name = "CPUS", value_parser = values::cpus)]
    pub(crate) cpus: Option<CpuList>,

    /// Record these control groups, by path below the cgroup mount
    #[arg(
        short = 'G',
        long = "cgroup",
        value_name = "CGROUP",
        value_delimiter = ',',
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        conflicts_with = "user"
    )]
    pub(crate) cgroups: Vec<String>,

    /// Record the running processes of a user (name or ID)
    #[arg(short = 'u', long = "uid", value_name = "USER")]
    pub(crate) user: Option<String>,
}

impl TargetArgs {
    /// Returns true if a given target is not a filter in commands that read recordings.
    pub(crate) fn is_for_recording_only(&self) -> bool {
        self.all_cpus || !self.cgroups.is_empty() || self.user.is_some()
    }

    /// Converts processes, threads and CPUs to filters, for commands that record or read.
    pub(crate) fn as_filter(&self) -> TaskFilterArgs {
        let ids = |ids: &[u32]| ids.iter().map(|id| id.cast_signed()).collect();
        TaskFilterArgs {
            pid: ids(&self.processes),
            tid: ids(&self.threads),
            cpu: self.cpus.iter().cloned().collect(),
        }
    }

    pub(crate) fn is_given(&self) -> bool {
        self.all_cpus
            || !self.processes.is_empty()
            || !self.threads.is_empty()
            || self.cpus.is_some()
            || !self.cgroups.is_empty()
            || self.user.is_some()
    }
}
