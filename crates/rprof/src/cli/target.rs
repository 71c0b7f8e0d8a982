//! What to watch.

use clap::Args;

use super::values::{self, CpuList};

/// What to watch; one of these, or a COMMAND. With one of them a COMMAND is run too, and
/// its end is the end of the recording.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Everything that runs
    #[arg(short = 'a', long, conflicts_with_all = ["processes", "threads", "user"])]
    pub(crate) all_cpus: bool,

    /// Processes that run already, with all their threads and those they start
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["threads", "cgroups", "user"])]
    pub(crate) processes: Vec<u32>,

    /// Threads that run already, by themselves
    #[arg(short = 't', long = "tid", value_name = "TID", value_delimiter = ',', value_parser = values::running, conflicts_with_all = ["cgroups", "user"])]
    pub(crate) threads: Vec<u32>,

    /// Only on these CPUs, as `0-3,8`; everything that runs there, unless another target is given
    #[arg(short = 'C', long = "cpu", value_name = "CPUS", value_parser = values::cpus)]
    pub(crate) cpus: Option<CpuList>,

    /// What runs in these control groups, by their path under the cgroup mount
    #[arg(
        short = 'G',
        long = "cgroup",
        value_name = "CGROUP",
        value_delimiter = ',',
        conflicts_with = "user"
    )]
    pub(crate) cgroups: Vec<String>,

    /// The processes of a user, by name or number
    #[arg(short = 'u', long = "uid", value_name = "USER")]
    pub(crate) user: Option<String>,
}

impl TargetArgs {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        self.all_cpus
            || !self.processes.is_empty()
            || !self.threads.is_empty()
            || self.cpus.is_some()
            || !self.cgroups.is_empty()
            || self.user.is_some()
    }
}
