//! Arguments of `rprof agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Records this machine all the time, for a fleet.
///
/// Samples all CPUs at a low rate, and sums samples up by minute and workload: service, version, container, pod. Windows
/// wait in a bounded spool until they are in a folder, in an S3 bucket, or taken by Pyroscope, Parca or an OpenTelemetry
/// collector. docs/agent.md has the configuration. SIGTERM closes the window and ends it. Only in builds with `--features agent`.
#[derive(Debug, Args)]
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
pub(crate) struct AgentArgs {
    /// File of settings
    #[arg(long, value_name = "FILE", default_value = "/etc/rprof/agent.toml", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,

    #[command(subcommand)]
    pub(crate) action: Option<AgentAction>,
}

/// Question to an agent, in place of running one.
#[derive(Clone, Copy, Debug, Subcommand)]
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
pub(crate) enum AgentAction {
    /// Shows how the agent with these settings is doing; the exit status is 1 if it does not run
    Status {
        /// Form of the answer
        #[arg(long, value_name = "FORM", default_value = "text")]
        format: StatusFormat,
    },
    /// Checks settings, permissions and destinations, and shows whose the current processes are; sends no data
    Check,
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFormat {
    /// Words
    Text,
    /// JSON, all that is known
    Json,
}
