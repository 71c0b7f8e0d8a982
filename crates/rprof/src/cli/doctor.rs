//! `doctor`.

use clap::Args;

use super::{Color, HeaderFormat};

/// Tells whether this user may profile here, and what stands in the way.
///
/// The exit status is 0 only if `rprof record -g` would work.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: HeaderFormat,

    /// Colour the states
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}
