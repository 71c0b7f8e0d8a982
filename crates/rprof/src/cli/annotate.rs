//! Arguments of `annotate`.

use clap::{Args, ValueEnum};

use super::reading::{Color, InputArgs};
use super::values::number;

/// Shows source lines and instructions of functions, with the samples of each.
///
/// Without a SYMBOL, shows the hottest functions, up to 80 % of self time. Self counts samples on
/// the line, total also samples in functions called there. Lines and inlined calls need debug
/// information (-g); instructions do not.
#[derive(Debug, Args)]
#[command(mut_arg("by_language", |argument| argument.hide(true)))]
#[command(mut_arg("no_by_language", |argument| argument.hide(true)))]
pub(crate) struct AnnotateArgs {
    /// Function to show; `*` and `?` are wildcards; `libfoo.so+0x1234` for code without a symbol
    #[arg(value_name = "SYMBOL")]
    pub(crate) function: Option<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Parts to show
    #[arg(
        long,
        alias = "by",
        help_heading = "Listing",
        value_name = "WHAT",
        default_value = "both"
    )]
    pub(crate) show: PartsArg,

    /// Line that gets the samples of inlined code
    #[arg(
        long,
        help_heading = "Listing",
        value_name = "WHERE",
        default_value = "call-site"
    )]
    pub(crate) inlined: InlinedArg,

    /// Assembly syntax for x86
    #[arg(
        short = 'M',
        long,
        alias = "disassembler-style",
        help_heading = "Listing",
        value_name = "SYNTAX",
        default_value = "att"
    )]
    pub(crate) syntax: SyntaxArg,

    /// Base of the percentages
    #[arg(
        long,
        help_heading = "Listing",
        value_name = "BASE",
        default_value = "global"
    )]
    pub(crate) percent_type: PercentArg,

    /// Show whole functions, not only the code near samples
    #[arg(long, help_heading = "Listing")]
    pub(crate) all: bool,

    /// Show instruction bytes
    #[arg(long, help_heading = "Listing")]
    pub(crate) asm_raw: bool,

    /// Show at most N functions [default: 10]
    #[arg(
        short = 'n',
        long = "functions",
        help_heading = "Listing",
        value_name = "N",
        value_parser = number::<usize>(0..)
    )]
    pub(crate) limit: Option<usize>,

    /// Search sources in DIR, or replace prefix FROM of source paths with TO; repeatable
    #[arg(long, help_heading = "Listing", value_name = "DIR|FROM=TO")]
    pub(crate) source_path: Vec<String>,

    /// Do not cut lines at the terminal's width
    #[arg(long, help_heading = "Listing")]
    pub(crate) wide: bool,

    /// Output format
    #[arg(
        long,
        help_heading = "Output",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(crate) format: AnnotateFormat,

    /// When to use colours
    #[arg(
        long,
        help_heading = "Output",
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub(crate) color: Color,
}

/// Parts of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartsArg {
    /// Source lines
    Source,
    /// Instructions
    Asm,
    /// Instructions below their source lines
    Both,
}

/// Line that gets the samples of inlined code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InlinedArg {
    /// Line of the call
    CallSite,
    /// Line of the inlined code
    Definition,
}

/// Assembly syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyntaxArg {
    /// AT&T, as in objdump and perf
    Att,
    /// Intel, as in processor manuals
    Intel,
}

/// Base of percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PercentArg {
    /// All samples, as in a report
    #[value(aliases = ["global-period", "global-hits"])]
    Global,
    /// Samples of the function
    #[value(aliases = ["local-period", "local-hits"])]
    Local,
}

/// Formats of annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnotateFormat {
    /// Plain text
    Text,
    /// JSON, stable schema
    Json,
    /// JSON for editors, stable schema: self and total of each line of all files, or of SYMBOL
    Editor,
}
