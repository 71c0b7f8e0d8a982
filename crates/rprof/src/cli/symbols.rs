//! Arguments for function names: symbol sources and display.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

use super::values;

/// Options for function names.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Names")]
pub(crate) struct SymbolArgs {
    /// Show inlined calls as separate frames (the default)
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,

    /// Do not show inlined calls as separate frames
    #[arg(long, overrides_with = "inline")]
    pub(crate) no_inline: bool,

    /// Name functions without a symbol by object and start address from unwind tables,
    /// `cc1+0x5a3c10` (the default, except in `script`)
    #[arg(long, overrides_with = "no_located")]
    pub(crate) located: bool,

    /// Show functions without a symbol as `[unknown]`, as perf does
    #[arg(long, overrides_with = "located")]
    pub(crate) no_located: bool,

    /// Fold the code of interpreters into the functions of Python, JavaScript and Java that it runs,
    /// and name these `f (app.py:12)` (the default if they have names)
    #[arg(long, overrides_with = "no_by_language")]
    pub(crate) by_language: bool,

    /// Show the code of interpreters, and names as runtimes write them
    #[arg(long, overrides_with = "by_language")]
    pub(crate) no_by_language: bool,

    /// How to demangle names of C++ and Rust
    #[arg(long, value_name = "HOW", default_value = "short")]
    pub(crate) demangle: DemangleArg,

    /// Search programs, libraries and debug files in this folder: by path, or anywhere in it by
    /// build-id
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = PathBufValueParser::new().try_map(values::folder))]
    pub(crate) symfs: Option<PathBuf>,

    /// Kernel image with symbols and debug information, instead of /proc/kallsyms
    #[arg(short = 'k', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) vmlinux: Option<PathBuf>,

    /// Memory limit for reading and decompressing files, with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = values::file_size)]
    pub(crate) memory_limit: Option<u64>,

    /// Download missing debug files from the servers in DEBUGINFOD_URLS
    #[arg(long, overrides_with = "no_debuginfod")]
    pub(crate) debuginfod: bool,

    /// Download nothing (the default)
    #[arg(long, overrides_with = "debuginfod")]
    pub(crate) no_debuginfod: bool,
}

/// Forms of demangled names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemangleArg {
    /// With parameters and return types
    Full,
    /// Names only, as in perf
    Short,
    /// Mangled, as in the file
    None,
}
