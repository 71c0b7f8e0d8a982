//! Arguments of `rprof agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Records this machine continuously, for a fleet.
///
/// Samples all CPUs at a low rate, and sums samples by minute and workload: service, version,
/// container, pod. A bounded spool holds windows until they are stored in a folder or S3 bucket, or
/// accepted by Pyroscope, Parca or an OpenTelemetry collector. docs/agent.md describes the
/// configuration. SIGTERM closes the window and ends the agent. Only in builds with `--features
/// agent`.
#[derive(Debug, Args)]
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
pub(crate) struct AgentArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/rprof/agent.toml", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,

    #[command(subcommand)]
    pub(crate) action: Option<AgentAction>,
}

/// Agent command other than running it.
#[derive(Clone, Copy, Debug, Subcommand)]
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
pub(crate) enum AgentAction {
    /// Shows the state of the agent with this configuration; exit status 1 if it does not run
    Status {
        /// Output format
        #[arg(long, value_name = "FORM", default_value = "text")]
        format: StatusFormat,
    },
    /// Checks configuration, permissions and destinations, and lists workloads of running
    /// processes; sends no data
    Check,
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFormat {
    /// Plain text
    Text,
    /// JSON, all fields
    Json,
}
