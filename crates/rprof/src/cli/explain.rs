//! Arguments of `rprof explain`.

use clap::Args;

use super::reading::InputArgs;

/// Explains a recording in sentences, each with its number and the command that shows it.
///
/// The text says what was measured and how far to trust it, where the time is, what kind of work it
/// is (allocation, copying, page faults, system calls and others) and for which function, when a
/// single thread ran, and what threads waited for. It is the same for the same recording. With two
/// files it says what changed from the first to the second.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Maximum number of words; the least important sentences are left out
    #[arg(
        long,
        help_heading = "Output",
        value_name = "WORDS",
        default_value_t = 400
    )]
    pub(crate) budget: usize,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}
