//! Arguments of `rprof completions` and `rprof man`.

use clap::Args;

use super::suggested::{COMMANDS, suggested, text};

/// Prints a completion script for your shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

/// Shows the manual page of rprof, or of one of its commands.
///
/// On a terminal, man(1) shows it through MANPAGER or PAGER. Otherwise, prints the source for
/// man(1), to be installed.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command to describe [default: rprof itself]
    #[arg(value_parser = suggested(COMMANDS, text::<String>), hide_possible_values = true)]
    pub(crate) command: Option<String>,
}
