//! Arguments of `rprof diff`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use rprof_export::diff::{DIFF_FORMATS, DiffFormat};
use rprof_profile::compare::{Correction, Work};

use super::reading::{Color, FilterArgs};
use super::waits::WaitArgs;

/// Shows what takes more or less CPU time than before.
///
/// Compares two recordings, or two sets of them, function by function: self and total on both sides, what is new and
/// what is gone, and whether a change is more than noise. With several recordings a side (--base, --new), how much runs
/// differ is learned from them; of one a side it is unknown, so nothing is more than suspected unless --noise says it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if --fail-above is not given, nothing takes more, or it cannot be told (4 with --strict); \
3 if something takes more by as much as --fail-above says; 2 if the sides do not compare; 1 if a file cannot be read.

Marks: ▲ takes more, ▼ takes less, ? suspected only, ↔ moved between functions of one caller, · what it calls changed.")]
pub(crate) struct DiffArgs {
    /// Recording or folded stacks before; `-` is standard input [default: perf.data.old]
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath, conflicts_with_all = ["base", "new"])]
    pub(crate) old_file: Option<PathBuf>,

    /// Recording or folded stacks after [default: perf.data]
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) new_file: Option<PathBuf>,

    /// Recordings before, each one run of the same program; of a folder all that are in it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "new")]
    pub(crate) base: Vec<PathBuf>,

    /// Recordings after
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "base")]
    pub(crate) new: Vec<PathBuf>,

    /// Do not print warnings, nor anything above the rows
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

    /// Compare the runs of both sides in pairs: the n-th were made next to each other, in turns
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

/// Options that decide what a change is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct JudgingArgs {
    /// Divide amounts: by `second` of the recording, by the `total` of its side (shares), by N units of work that each
    /// run did, or by OLD:NEW units
    #[arg(long, visible_alias = "normalize", value_name = "WHAT", value_parser = work)]
    pub(crate) per: Option<Work>,

    /// Noise between runs of one program, such as `2%`, where it is known [default: learned from the runs; 5% assumed for one]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) noise: Option<f64>,

    /// Fail with exit status 3 if the program or a function surely takes more, by at least this much: `5%`
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) fail_above: Option<f64>,

    /// Smallest change of a function that counts, as a share of the whole program
    #[arg(long, value_name = "PERCENT", default_value = "0.5%", value_parser = percent)]
    pub(crate) min_share: f64,

    /// With --fail-above, fail with exit status 4 if it cannot be told
    #[arg(long)]
    pub(crate) strict: bool,

    /// Amounts that may fail it
    #[arg(long, value_name = "WHICH", default_value = "all")]
    pub(crate) scope: ScopeArg,

    /// Fail for these functions only, `*` and `?` stand for any characters; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) only: Vec<String>,

    /// Do not fail for these functions, nor for what takes more because they do; repeatable
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) allow: Vec<String>,

    /// Largest share of false findings among all, on average; where nothing differs, the chance of any
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub(crate) q: f64,

    /// Meaning of --q: the share of false findings (bh), also where functions depend on each other in any way (by), or the
    /// chance of any false finding (holm)
    #[arg(long, value_name = "HOW", default_value = "bh")]
    pub(crate) correction: CorrectionArg,

    /// Rise for which to say how many runs would show it [default: twice --fail-above]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) wanted: Option<f64>,

    /// Make one of all instances of a generic function
    #[arg(long)]
    pub(crate) fold_generics: bool,
}

/// Options that decide what is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShownArgs {
    /// Draw a differential flame graph into this SVG file too: above, the new side, red where it takes more and blue where
    /// less; below, what only the old side has; `-` is standard output, in place of the table
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Title of the flame graph [default: the files]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = format())]
    pub(crate) format: &'static DiffFormat,

    /// Write stacks with two weights instead, old and new, which inferno-flamegraph and flamegraph.pl draw
    #[arg(long, conflicts_with = "format")]
    pub(crate) folded: bool,

    /// Order of rows
    #[arg(short, long, value_name = "KEY", default_value = "delta")]
    pub(crate) sort: DiffSort,

    /// Show rows without a sure change too
    #[arg(long)]
    pub(crate) all: bool,

    /// Show at most N rows, 0 for all [default: 30 on a terminal, all elsewhere]
    #[arg(short = 'n', long = "rows", value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Show names in full on a terminal, not fitted to its width
    #[arg(long)]
    pub(crate) wide: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Options that decide who else is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reports")]
pub(crate) struct ToldArgs {
    /// Write the verdict as Markdown into this file too, for a comment on a change
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) markdown: Option<PathBuf>,

    /// Write the verdicts as tests in JUnit's XML into this file too, for GitLab, Jenkins and others
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,

    /// Print annotations for GitHub, and add the verdict to the summary of the step
    #[arg(long)]
    pub(crate) github: bool,

    /// Name of this comparison in reports, by which the next one is found and replaced
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Value of `--scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// The program, and self and total of each function
    All,
    /// The program
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
    /// By how much self changed, in either direction
    #[value(alias = "delta-abs")]
    Delta,
    /// By self, on the side that has more
    #[value(name = "self")]
    Own,
    /// By total, on the side that has more
    Total,
    /// By name
    #[value(alias = "symbol", alias = "sym")]
    Name,
}

/// Offers every form of a comparison that there is.
fn format() -> impl TypedValueParser<Value = &'static DiffFormat> {
    let values =
        (DIFF_FORMATS.iter()).map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(values)
        .map(|name| DiffFormat::by_name(&name).unwrap_or(&DIFF_FORMATS[0]))
}

/// Parses a share as `5%` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(share) if (0.0..=1000.0).contains(&share) => Ok(share / 100.0),
        _ => Err("not a percentage such as `5%`".into()),
    }
}

/// Parses what amounts are divided by.
fn work(text: &str) -> Result<Work, String> {
    let units = |text: &str| match text.parse::<f64>() {
        Ok(units) if units > 0.0 && units.is_finite() => Ok(units),
        _ => Err("not `second`, `total`, a number of units of work, or OLD:NEW".to_owned()),
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
