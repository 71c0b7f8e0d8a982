//! Arguments of `rprof explain`.

use clap::Args;

use super::reading::InputArgs;
use super::values::number;

/// Explains a recording in sentences, each with a figure and the command that shows it.
///
/// The text reports the amount and quality of the samples, the places with most time, and kinds of
/// work with the functions that they are done for: allocation, copying, page faults, system calls
/// and others. It names phases of a single thread, and reasons of waits. The same recording gives
/// the same text. With two files, the text reports the changes from the first to the second.
#[derive(Debug, Args)]
#[command(mut_arg("latency", |argument| argument.hide(true)))]
pub(crate) struct ExplainArgs {
    /// Maximum number of words; rprof omits the least important sentences
    #[arg(
        long,
        help_heading = "Output",
        value_name = "WORDS",
        default_value_t = 400,
        value_parser = number::<usize>(0..)
    )]
    pub(crate) budget: usize,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}
