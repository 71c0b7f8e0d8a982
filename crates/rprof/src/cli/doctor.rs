//! Arguments of `rprof doctor`.

use clap::Args;

use super::{Color, HeaderFormat};

/// Checks whether you may profile on this machine, and suggests fixes.
///
/// The exit status is 0 if `rprof record` can record your own commands, and 1 otherwise.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}
