//! Arguments of `rprof diff`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use rprof_export::diff::{DIFF_FORMATS, DiffFormat};
use rprof_profile::compare::{Correction, Work};

use super::reading::{Color, FilterArgs};
use super::values::number;
use super::waits::WaitArgs;

/// Shows which functions take more or less CPU time than before.
///
/// Compares two recordings, or two sets of recordings, function by function: self and total on both
/// sides, new and removed functions, and whether a change exceeds the noise. Several recordings a
/// side (--base, --new) show how much runs differ. With one a side this is unknown: changes are
/// only suspected, unless --noise sets it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 without --fail-above, if nothing regressed, or if inconclusive (4 with --strict); \
3 if something regressed by at least --fail-above; 2 if the sides cannot be compared; 1 if a file cannot be read.

Marks: ▲ more, ▼ less, ? only suspected, ↔ moved between functions of the same caller, · its callees changed.")]
pub(crate) struct DiffArgs {
    /// Old recording or profile of another tool, such as folded stacks; `-` is standard input
    /// [default: perf.data.old]
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath, conflicts_with_all = ["base", "new"])]
    pub(crate) old_file: Option<PathBuf>,

    /// New recording or profile of another tool [default: perf.data]
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) new_file: Option<PathBuf>,

    /// Old recordings, each one run of the same program; a folder stands for all recordings in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "new")]
    pub(crate) base: Vec<PathBuf>,

    /// New recordings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "base")]
    pub(crate) new: Vec<PathBuf>,

    /// Print only the rows: no warnings, no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Only samples of this event
    #[arg(
        long,
        help_heading = "Filters",
        value_name = "EVENT",
        value_delimiter = ','
    )]
    pub(crate) event: Vec<String>,

    /// Compare runs in pairs, for runs of both sides that were recorded alternately
    #[arg(long, help_heading = "Comparison")]
    pub(crate) paired: bool,

    #[command(flatten)]
    pub(crate) judging: JudgingArgs,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    #[command(flatten)]
    pub(crate) told: ToldArgs,

    #[command(flatten)]
    pub(crate) waits: WaitArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Options for the statistical comparison.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct JudgingArgs {
    /// Divide amounts by `second` of the recording, by the `total` of each side (shares), by N
    /// units of work in each run, or by OLD:NEW units
    #[arg(long, visible_alias = "normalize", value_name = "WHAT", value_parser = work)]
    pub(crate) per: Option<Work>,

    /// Known noise between runs of one program, such as `2%` [default: estimated from the runs; 5%
    /// with one run]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) noise: Option<f64>,

    /// Exit with status 3 if the program or a function regressed, by at least this much: `5%`
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) fail_above: Option<f64>,

    /// Ignore changes of functions below this share of the program
    #[arg(long, value_name = "PERCENT", default_value = "0.5%", value_parser = percent)]
    pub(crate) min_share: f64,

    /// Exit with status 4 if --fail-above is inconclusive
    #[arg(long)]
    pub(crate) strict: bool,

    /// Amounts that --fail-above checks
    #[arg(long, value_name = "WHICH", default_value = "all")]
    pub(crate) scope: ScopeArg,

    /// Fail for these functions only; `*` and `?` are wildcards; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) only: Vec<String>,

    /// Do not fail for these functions, nor for callers that regress because of them; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) allow: Vec<String>,

    /// Accepted false discovery rate: average share of reported changes that are due to chance
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub(crate) q: f64,

    /// Multiple testing correction: --q limits the share of false findings (bh), also between
    /// dependent functions (by), or the chance of any false finding (holm)
    #[arg(long, value_name = "HOW", default_value = "bh")]
    pub(crate) correction: CorrectionArg,

    /// Report how many runs would detect a rise of PERCENT [default: twice --fail-above]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) wanted: Option<f64>,

    /// Merge all instances of a generic function
    #[arg(long)]
    pub(crate) fold_generics: bool,
}

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShownArgs {
    /// Also draw a differential flame graph to this SVG file: above, the new side, red for more and
    /// blue for less; below, stacks of the old side only; `-` is standard output, instead of the
    /// table
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Title of the flame graph [default: the file names]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = format())]
    pub(crate) format: &'static DiffFormat,

    /// Write stacks with old and new weights instead, for inferno-flamegraph and flamegraph.pl
    #[arg(long, conflicts_with = "format")]
    pub(crate) folded: bool,

    /// Order of rows
    #[arg(short, long, value_name = "KEY", default_value = "delta")]
    pub(crate) sort: DiffSort,

    /// Also show rows without a significant change
    #[arg(long)]
    pub(crate) all: bool,

    /// Show at most N rows, 0 for all [default: 30 on a terminal, otherwise all]
    #[arg(short = 'n', long = "rows", value_name = "N", value_parser = number::<usize>(0..))]
    pub(crate) limit: Option<usize>,

    /// Do not shorten names to the terminal's width
    #[arg(long)]
    pub(crate) wide: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Options for additional reports.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reports")]
pub(crate) struct ToldArgs {
    /// Also write the verdict as Markdown to this file, for a comment on a change
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) markdown: Option<PathBuf>,

    /// Also write the verdicts as JUnit XML tests to this file, for GitLab, Jenkins and others
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,

    /// Print GitHub annotations, and add the verdict to the step summary
    #[arg(long)]
    pub(crate) github: bool,

    /// Name of this comparison in reports; the next report of this name replaces it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Value of `--scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// The program, and self and total of each function
    All,
    /// The whole program
    Total,
    /// Self of each function
    #[value(name = "self")]
    Own,
    /// Total of each function
    Inclusive,
}

/// Value of `--correction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CorrectionArg {
    /// Benjamini and Hochberg
    #[value(alias = "fdr")]
    Bh,
    /// Benjamini and Yekutieli
    By,
    /// Holm
    Holm,
}

impl From<CorrectionArg> for Correction {
    fn from(typed: CorrectionArg) -> Self {
        match typed {
            CorrectionArg::Bh => Correction::BenjaminiHochberg,
            CorrectionArg::By => Correction::BenjaminiYekutieli,
            CorrectionArg::Holm => Correction::Holm,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffSort {
    /// By change of self, in either direction
    #[value(alias = "delta-abs")]
    Delta,
    /// By self, on the larger side
    #[value(name = "self")]
    Own,
    /// By total, on the larger side
    Total,
    /// By name
    #[value(alias = "symbol", alias = "sym")]
    Name,
}

fn format() -> impl TypedValueParser<Value = &'static DiffFormat> {
    let values =
        (DIFF_FORMATS.iter()).map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(values)
        .map(|name| DiffFormat::by_name(&name).unwrap_or(&DIFF_FORMATS[0]))
}

/// Parses a percentage such as `5%` or `5`. Returns a share.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(share) if (0.0..=1000.0).contains(&share) => Ok(share / 100.0),
        _ => Err("expected a percentage such as `5%`".into()),
    }
}

fn work(text: &str) -> Result<Work, String> {
    let units = |text: &str| match text.parse::<f64>() {
        Ok(units) if units > 0.0 && units.is_finite() => Ok(units),
        _ => Err("expected `second`, `total`, a number of units of work, or OLD:NEW".to_owned()),
    };
    match (text, text.split_once(':')) {
        ("second", _) => Ok(Work::Seconds),
        ("total", _) => Ok(Work::Share),
        (_, Some((old, new))) => Ok(Work::Units {
            old: units(old)?,
            new: units(new)?,
        }),
        (both, None) => units(both).map(|units| Work::Units {
            old: units,
            new: units,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_units_of_work_are_parsed() {
        assert_eq!([percent("5%"), percent("0.5")], [Ok(0.05), Ok(0.005)]);
        for wrong in ["", "%", "-1", "nan", "5 %%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(work("total"), Ok(Work::Share));
        let of = |old, new| Ok(Work::Units { old, new });
        assert_eq!(
            [work("100"), work("10:20")],
            [of(100.0, 100.0), of(10.0, 20.0)]
        );
        for wrong in ["", "0", "1:", "x", "inf", "1:2:3"] {
            assert!(work(wrong).is_err(), "{wrong}");
        }
    }
}
