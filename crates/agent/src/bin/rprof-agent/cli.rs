//! Arguments of `rprof-agent`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

/// Records this machine continuously, for a fleet.
///
/// Samples all CPUs at a low rate, and sums samples by minute and workload: service, version,
/// container, pod. A bounded spool holds windows until they are stored in a folder or S3 bucket, or
/// accepted by Pyroscope, Parca or an OpenTelemetry collector. SIGTERM closes the window and ends
/// the agent.
///
/// docs/agent.md describes the configuration, docs/fleet.md the tables.
#[derive(Debug, Parser)]
#[command(name = "rprof-agent", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/rprof/agent.toml", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,

    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

/// Command other than running the agent.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Shows the state of the agent with this configuration; exit status 1 if it does not run
    Status {
        /// Output format
        #[arg(long, value_name = "FORM", default_value = "text")]
        format: StatusFormat,
    },
    /// Checks configuration, permissions and destinations, and lists workloads of running
    /// processes; sends no data
    Check,
    Export(ExportArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFormat {
    /// Plain text
    Text,
    /// JSON, all fields
    Json,
}

/// Writes recordings as the same Parquet tables, without an agent.
///
/// DuckDB, DataFusion, Spark, ClickHouse and rprof-fleet read the tables. A second export of a
/// recording creates no duplicates. Needs no configuration file.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Recordings by `rprof record` or `perf record`; `-` is standard input
    #[arg(value_name = "RECORDING", default_value = "perf.data", value_hint = ValueHint::FilePath)]
    pub(crate) recordings: Vec<PathBuf>,

    /// Folder of the tables; existing files stay
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,

    /// Service name in all rows [default: name of each process]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) service: Option<String>,

    /// Service version in all rows
    #[arg(long, value_name = "VERSION")]
    pub(crate) service_version: Option<String>,

    /// Prints errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
