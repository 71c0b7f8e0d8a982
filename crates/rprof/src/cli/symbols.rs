//! Arguments for the names of functions: where they come from, and how they are shown.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::values;

/// Options for the names of functions.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Names")]
pub(crate) struct SymbolArgs {
    /// Show inlined calls as frames of their own; the default
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,

    /// Show inlined calls as part of the function that they were inlined into
    #[arg(long, overrides_with = "inline")]
    pub(crate) no_inline: bool,

    /// Show functions without a symbol by the address that unwinding information has of their start, `cc1+0x5a3c10`; the default but for `script`
    #[arg(long, overrides_with = "no_located")]
    pub(crate) located: bool,

    /// Show functions without a symbol as `[unknown]`, as perf does
    #[arg(long, overrides_with = "located")]
    pub(crate) no_located: bool,

    /// How to show mangled names of C++ and Rust
    #[arg(long, value_name = "HOW", default_value = "short")]
    pub(crate) demangle: DemangleArg,

    /// Look for programs, libraries and their debug files below this folder: by path, or anywhere in it by build-id
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) symfs: Option<PathBuf>,

    /// Kernel image with symbols and debug information, instead of /proc/kallsyms
    #[arg(short = 'k', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) vmlinux: Option<PathBuf>,

    /// Most memory for what files expand to while they are read, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = values::file_size)]
    pub(crate) memory: Option<u64>,

    /// Download missing debug files from the servers in DEBUGINFOD_URLS
    #[arg(long, overrides_with = "no_debuginfod")]
    pub(crate) debuginfod: bool,

    /// Download nothing; the default
    #[arg(long, overrides_with = "debuginfod")]
    pub(crate) no_debuginfod: bool,
}

/// Forms in which mangled names are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemangleArg {
    /// With parameters and return types
    Full,
    /// Names alone, as by perf
    Short,
    /// Mangled, as in the file
    None,
}
