//! Arguments of `annotate`.

use clap::{Args, ValueEnum};

use super::reading::{Color, InputArgs};

/// Shows source lines and instructions of functions, with the samples of each.
///
/// Without a SYMBOL these are the hottest functions, until they have 80 % of self. A line's self is what was sampled there, its total
/// has what it called as well. Lines and inlined calls need debug information (-g); instructions do not.
#[derive(Debug, Args)]
pub(crate) struct AnnotateArgs {
    /// Function to show; `*` and `?` stand for any characters; `libfoo.so+0x1234` for code without a name
    #[arg(value_name = "SYMBOL")]
    pub(crate) function: Option<String>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// What to show
    #[arg(
        long,
        help_heading = "Listing",
        value_name = "WHAT",
        default_value = "both"
    )]
    pub(crate) by: ByArg,

    /// Line that code of an inlined call counts for
    #[arg(
        long,
        help_heading = "Listing",
        value_name = "WHERE",
        default_value = "call-site"
    )]
    pub(crate) inlined: InlinedArg,

    /// Notation of x86 instructions
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

    /// Show all lines and instructions of a function, also far from any sample
    #[arg(long, help_heading = "Listing")]
    pub(crate) all: bool,

    /// Show the bytes of instructions
    #[arg(long, help_heading = "Listing")]
    pub(crate) asm_raw: bool,

    /// Show at most N functions [default: 10]
    #[arg(
        short = 'n',
        long = "functions",
        help_heading = "Listing",
        value_name = "N"
    )]
    pub(crate) limit: Option<usize>,

    /// Look for sources below DIR, or below TO where debug information says FROM; repeatable
    #[arg(long, help_heading = "Listing", value_name = "DIR|FROM=TO")]
    pub(crate) source_path: Vec<String>,

    /// Do not cut lines to the width of the terminal
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
pub(crate) enum ByArg {
    /// Lines of source
    Source,
    /// Instructions
    Asm,
    /// Instructions below the lines that they were compiled from
    Both,
}

/// Line that inlined code counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InlinedArg {
    /// The line from which it was called
    CallSite,
    /// The line on which it is written
    Definition,
}

/// Notation of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyntaxArg {
    /// As objdump and perf print them
    Att,
    /// As processors' manuals have them
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
    /// A listing
    Text,
    /// JSON, in a stable form
    Json,
}
