//! Arguments of `rprof push`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use rprof_push::{Label, ServerKind};

use super::reading::{InputArgs, LabelArg};
use super::values;

/// Sends profiles to Pyroscope, Parca or an OpenTelemetry collector.
///
/// Each FILE becomes one profile with the time of its recording. A profile above the server's size
/// limit is sent in parts. If a server is busy or unreachable, rprof retries (--retry-for).
/// Rejections are printed with the server's message, and the exit status is 1 if anything was not
/// accepted. `--dry-run` shows what would be sent.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Type of the server
    #[arg(long, value_name = "SERVER", value_enum)]
    pub(crate) to: TargetArg,

    /// Address of the server, such as http://localhost:4040
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Send each file that `record --switch-output -o RECORDING` finishes, until Ctrl-C
    #[arg(long, help_heading = "Sending", value_name = "RECORDING", value_hint = ValueHint::FilePath, conflicts_with_all = ["files", "input", "time"])]
    pub(crate) follow: Option<PathBuf>,

    /// File for the progress of `--follow`, where the next run resumes [default: RECORDING.pushed]
    #[arg(long, help_heading = "Sending", value_name = "FILE", requires = "follow", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,

    /// Print what would be sent, without sending it
    #[arg(long, help_heading = "Sending", conflicts_with = "follow")]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) labels: SeriesArgs,

    #[command(flatten)]
    pub(crate) access: AccessArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Labels of profiles and samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "Labels")]
pub(crate) struct SeriesArgs {
    /// Label of the profile on the server, such as service_name=checkout or version=1.4.2;
    /// repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) label: Vec<Label>,

    /// Sample labels, to group and filter by
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        default_value = "thread"
    )]
    pub(crate) labels: Vec<LabelArg>,
}

/// Credentials and trusted certificates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// File with a bearer token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// File with USER:PASSWORD
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token_file")]
    pub(crate) basic_auth_file: Option<PathBuf>,

    /// File with additional HTTP headers, one `NAME: VALUE` per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) header_file: Option<PathBuf>,

    /// Tenant of a multi-tenant server (the header X-Scope-OrgID, or Parca's field)
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,

    /// File with trusted CA certificates (PEM), instead of the system's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,

    /// Allow unencrypted credentials to other machines
    #[arg(long)]
    pub(crate) plain_http: bool,
}

/// Limits in size and time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Retry for this time while the server is busy or unreachable; `--follow` retries until it is
    /// stopped
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = values::seconds)]
    pub(crate) retry_for: Duration,

    /// Time limit for an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::seconds)]
    pub(crate) timeout: Duration,

    /// Send at most N stacks per request [default: the server type's limit]
    #[arg(long, value_name = "N", value_parser = values::number::<u32>(1..))]
    pub(crate) max_samples: Option<u32>,

    /// Maximum size of a request, before compression, such as `4M` [default: the server type's
    /// limit]
    #[arg(long, value_name = "SIZE", value_parser = values::file_size)]
    pub(crate) max_bytes: Option<u64>,
}

/// Value of `--to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetArg {
    /// Pyroscope
    Pyroscope,
    /// Parca
    Parca,
    /// OpenTelemetry over HTTP, for collectors and compatible servers; experimental, proto 1.10
    Otlp,
}

impl TargetArg {
    pub(crate) fn target(self) -> ServerKind {
        match self {
            TargetArg::Pyroscope => ServerKind::Pyroscope,
            TargetArg::Parca => ServerKind::Parca,
            TargetArg::Otlp => ServerKind::Otlp,
        }
    }
}

fn label(text: &str) -> Result<Label, String> {
    Label::parse(text).map_err(|error| error.to_string())
}
