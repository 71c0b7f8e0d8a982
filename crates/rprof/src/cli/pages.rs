//! `completions` and `man`.

use clap::Args;

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual page, of rprof or of one of its commands.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command
    pub(crate) command: Option<String>,
}
