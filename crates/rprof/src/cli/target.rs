//! Arguments for what is recorded.

use clap::Args;

use super::reading::TaskFilterArgs;
use super::values::{self, CpuList};

/// What to record: one of these, or a COMMAND. With both, the COMMAND is run, and the recording ends with it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Record the whole system
    #[arg(short = 'a', long, conflicts_with_all = ["processes", "threads", "user"])]
    pub(crate) all_cpus: bool,

    /// Record these running processes, with all threads and what they start from now on
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["threads", "cgroups", "user"])]
    pub(crate) processes: Vec<u32>,

    /// With -p, record the processes that they have started before as well, and what those have started
    #[arg(long, requires = "processes")]
    pub(crate) with_children: bool,

    /// Record these running threads alone
    #[arg(short = 't', long = "tid", value_name = "TID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["cgroups", "user"])]
    pub(crate) threads: Vec<u32>,

    /// Record only on these CPUs, such as `0-3,8`; the whole system there, unless another target is given
    #[arg(short = 'C', long = "cpu", value_name = "CPUS", value_parser = values::cpus)]
    pub(crate) cpus: Option<CpuList>,

    /// Record these control groups, by their paths below the cgroup mount
    #[arg(
        short = 'G',
        long = "cgroup",
        value_name = "CGROUP",
        value_delimiter = ',',
        conflicts_with = "user"
    )]
    pub(crate) cgroups: Vec<String>,

    /// Record the running processes of a user, by name or number
    #[arg(short = 'u', long = "uid", value_name = "USER")]
    pub(crate) user: Option<String>,
}

impl TargetArgs {
    /// Returns true if a target was given that is no filter where a recording is read.
    pub(crate) fn is_for_recording_only(&self) -> bool {
        self.all_cpus || !self.cgroups.is_empty() || self.user.is_some()
    }

    /// Returns the processes, threads and CPUs as filters, for commands that record or read.
    pub(crate) fn as_filter(&self) -> TaskFilterArgs {
        let ids = |ids: &[u32]| ids.iter().map(|id| id.cast_signed()).collect();
        TaskFilterArgs {
            pid: ids(&self.processes),
            tid: ids(&self.threads),
            cpu: self.cpus.iter().cloned().collect(),
        }
    }

    /// Returns true if any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.all_cpus
            || !self.processes.is_empty()
            || !self.threads.is_empty()
            || self.cpus.is_some()
            || !self.cgroups.is_empty()
            || self.user.is_some()
    }
}
