//! Arguments about names: which there are, and how they are shown.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// How functions are named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names")]
pub(crate) struct SymbolArgs {
    /// Show calls that were inlined as frames of their own; the default
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,

    /// Show only functions, not the calls that were inlined into them
    #[arg(long, overrides_with = "inline")]
    pub(crate) no_inline: bool,

    /// How much of a mangled name is written out
    #[arg(long, value_name = "HOW", default_value = "short")]
    pub(crate) demangle: DemangleArg,

    /// Look for programs, libraries and their debug files below this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) symfs: Option<PathBuf>,

    /// Name the kernel by this file, which has its symbols and debug information
    #[arg(short = 'k', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) vmlinux: Option<PathBuf>,

    /// Fetch debug files that this machine lacks from the servers in DEBUGINFOD_URLS
    #[arg(long, overrides_with = "no_debuginfod")]
    pub(crate) debuginfod: bool,

    /// Fetch nothing; the default
    #[arg(long, overrides_with = "debuginfod")]
    pub(crate) no_debuginfod: bool,
}

/// How much of a mangled name is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemangleArg {
    /// With parameters and return types
    Full,
    /// Names alone, as perf shows them
    Short,
    /// Nothing: names as in the file
    None,
}
