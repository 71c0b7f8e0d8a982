//! Arguments of `rprof completions` and `rprof man`.

use clap::Args;

/// Prints a completion script for your shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual page of rprof, or of one of its commands.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command to describe [default: rprof itself]
    pub(crate) command: Option<String>,
}
