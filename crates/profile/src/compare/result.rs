//! Result of a comparison.

use std::path::PathBuf;

use rprof_statistics::{Design, Interval};

use super::{GateRules, Side, Work};
use crate::unit::WeightUnit;

/// Result of a comparison of two sets of profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileDiff {
    /// Name of the event.
    pub event: String,
    /// Unit of the weights.
    pub unit: WeightUnit,
    /// Divisor of amounts.
    pub work: Work,
    /// The base.
    pub old: SideSummary,
    /// The new side.
    pub new: SideSummary,
    /// Amounts of the whole program.
    pub whole: Change,
    /// Functions, sorted by name.
    pub functions: Vec<FunctionDiff>,
    /// Guessed renames.
    pub renames: Vec<GuessedRename>,
    /// Stacks, unsorted; empty unless [requested](super::CompareOptions::stacks).
    pub stacks: Vec<StackDiff>,
    /// Thread names of the stacks.
    pub comms: Vec<String>,
    /// True if requests take the place of threads: see [`Profile::request_key`](crate::Profile::request_key).
    pub is_by_request: bool,
    /// Noise of functions between runs, without sampling noise.
    pub noise: Noise,
    /// Relative standard deviation of the whole program between runs or pairs (0.02 for 2 %).
    /// `None` for one run per side, and for shares.
    pub whole_deviation: Option<f64>,
    /// Smallest relevant relative change.
    pub threshold: f64,
    /// Smallest relevant share of the program.
    pub min_share: f64,
    /// Increase for [`Change::runs_needed`].
    pub wanted: f64,
    /// Rules of [`gate`](Self::gate).
    pub rules: GateRules,
    /// Independent or paired runs.
    pub design: Design,
    /// Reservations about the verdicts.
    pub cautions: Vec<Caution>,
    /// Overall result.
    pub outcome: Outcome,
}

impl ProfileDiff {
    /// Returns true if findings are certain: the noise is measured, and no caution withholds
    /// verdicts.
    pub fn is_certain(&self) -> bool {
        !matches!(self.noise, Noise::Assumed(_)) && !self.cautions.iter().any(Caution::withholds)
    }

    pub(crate) fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &FunctionDiff> {
        (self.functions.iter())
            .filter(move |row| row.own.verdict == verdict || row.total.verdict == verdict)
    }
}

/// Runs, samples and quality of one side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct SideSummary {
    /// Input files.
    pub paths: Vec<PathBuf>,
    /// Weight of each run.
    pub weights: Vec<u64>,
    /// Number of samples of all runs.
    pub samples: u64,
    /// Share of the weight in named functions of both sides, from 0 to 1. Ignores functions that
    /// the other side may lack by chance.
    pub matched: f64,
    /// Share of complete stacks, if known.
    pub complete: Option<f64>,
    /// Share of lost records.
    pub lost: f64,
    /// Number of incomplete recordings.
    pub damaged: usize,
}

/// An amount on both sides, with a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Amount in the old side's mean run, per unit of work.
    pub old: f64,
    /// Amount in the new side's mean run, per unit of work.
    pub new: f64,
    /// Effective samples in each side's mean run.
    pub samples: [f64; 2],
    /// 95 % confidence interval of new / old. `None` without a verdict, or with an amount of 0.
    pub interval: Option<Interval>,
    /// P-value of "no change beyond the threshold".
    pub p: Option<f64>,
    /// Smallest increase visible in 80 % of cases (0.14 for 14 %).
    pub visible: Option<f64>,
    /// Runs per side that show an increase of [`ProfileDiff::wanted`] in 80 % of cases. `None`
    /// without a verdict, or if no number suffices.
    pub runs_needed: Option<usize>,
    /// Runs per side as in `runs_needed`, with [five times](super::MORE_SAMPLES) the samples.
    pub runs_needed_denser: Option<usize>,
    /// Decision: regressed, improved, unchanged, or why it is open.
    pub verdict: Verdict,
}

impl Change {
    /// Returns new minus old.
    pub fn difference(&self) -> f64 {
        self.new - self.old
    }

    /// Returns new / old - 1 (0.2 for 20 % more). `None` with an amount of 0.
    pub fn relative(&self) -> Option<f64> {
        (self.old > 0.0 && self.new > 0.0).then(|| self.new / self.old - 1.0)
    }

    pub(super) fn may_exceed(&self, threshold: f64) -> bool {
        let is_open = matches!(self.verdict, Verdict::MayExceed | Verdict::Inconclusive);
        is_open && self.highest() > 1.0 + threshold
    }

    /// Returns the upper bound of new / old; infinite for new functions.
    pub(super) fn highest(&self) -> f64 {
        match self.interval {
            Some(interval) => interval.high,
            None if self.new > self.old => f64::INFINITY,
            None => 0.0,
        }
    }

    /// Returns the absolute logarithm of new / old; infinite for new and removed functions.
    pub(super) fn factor(&self) -> f64 {
        self.relative()
            .map_or(f64::INFINITY, |relative| relative.ln_1p().abs())
    }
}

/// Verdict on an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Increase by at least the threshold.
    Regressed,
    /// Decrease by at least the threshold.
    Improved,
    /// Probable change, but the noise is assumed, the sides are hardly comparable, or other
    /// functions may do a one-sided function's work.
    Suspected,
    /// Change without new work: other callees of the caller changed oppositely, the calls had
    /// another caller before, or a one-sided function left its enclosing function unchanged.
    Moved,
    /// Change by the factor common to all functions.
    WithAll,
    /// Change by at least the threshold, but below the [minimum
    /// share](super::CompareOptions::min_share).
    BelowShare,
    /// Change by less than the threshold.
    BelowThreshold,
    /// Change, possibly beyond the threshold.
    MayExceed,
    /// No visible change; any is smaller than the threshold.
    Unchanged,
    /// No visible change, but possibly one beyond the threshold.
    Inconclusive,
    /// Too few samples.
    TooSmall,
}

impl Verdict {
    /// Verdicts, gravest first.
    pub const ALL: [Verdict; 11] = [
        Verdict::Regressed,
        Verdict::Improved,
        Verdict::Suspected,
        Verdict::Moved,
        Verdict::WithAll,
        Verdict::MayExceed,
        Verdict::BelowShare,
        Verdict::BelowThreshold,
        Verdict::Unchanged,
        Verdict::Inconclusive,
        Verdict::TooSmall,
    ];

    pub(super) fn is_change(self) -> bool {
        self.is_marked() && self != Verdict::Moved
    }

    /// Returns true for findings marked by views.
    pub fn is_marked(self) -> bool {
        matches!(
            self,
            Verdict::Regressed | Verdict::Improved | Verdict::Suspected | Verdict::Moved
        )
    }
}

/// Sides with samples of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The old and the new side.
    Both,
    /// The old side: removed.
    OnlyOld,
    /// The new side: added.
    OnlyNew,
}

/// A function on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDiff {
    /// Canonical name; `None` for an object's unnamed code. May contain any character: escape it
    /// for display.
    pub name: Option<Box<str>>,
    /// Canonical name of its object. May contain any character.
    pub object: Box<str>,
    /// Sides with samples.
    pub presence: Presence,
    /// Self amount.
    pub own: Change,
    /// Total amount.
    pub total: Change,
    /// Index of the function with the opposite change.
    pub counterpart: Option<usize>,
    /// Index of the changed function below that explains most of the total's change. `None` if the
    /// function itself changed.
    pub explained_by: Option<usize>,
}

impl FunctionDiff {
    /// Returns true for a new or removed function: less than one sample in one side's mean run.
    pub(super) fn is_of_one_side(&self) -> bool {
        let [old, new] = self.total.samples;
        self.presence != Presence::Both || old.min(new) < 1.0
    }

    /// Returns true if self or total is [marked](Verdict::is_marked).
    pub fn is_marked(&self) -> bool {
        self.own.verdict.is_marked() || self.total.verdict.is_marked()
    }
}

/// A guessed rename, without influence on verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessedRename {
    /// Index of the old function.
    pub old: usize,
    /// Index of the new function.
    pub new: usize,
}

/// A stack on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct StackDiff {
    /// Thread name: an index into [`ProfileDiff::comms`].
    pub comm: u32,
    /// Function indexes, root first.
    pub rows: Box<[u32]>,
    /// Total weight, old and new.
    pub weights: [u64; 2],
    /// Amount in the mean run, old and new, per unit of work.
    pub amounts: [f64; 2],
}

/// Relative noise between runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Estimated from several runs per side.
    Learned(f64),
    /// Given by the user.
    Given(f64),
    /// Assumed for one run per side.
    Assumed(f64),
}

impl Noise {
    /// Returns the relative standard deviation (0.02 for 2 %).
    pub fn deviation(self) -> f64 {
        match self {
            Noise::Learned(deviation) | Noise::Given(deviation) | Noise::Assumed(deviation) => {
                deviation
            }
        }
    }
}

/// Reservation about a verdict.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Caution {
    /// Fewer than five samples in a side's mean run.
    FewSamples(Side, f64),
    /// Share of a side's records lost, above 1 %.
    Lost(Side, f64),
    /// Number of a side's incomplete or unreadable recordings.
    Damaged(Side, usize),
    /// Shares of complete stacks that differ by more than 5 percentage points.
    Completeness {
        /// Share of the old side.
        old: f64,
        /// Share of the new side.
        new: f64,
    },
    /// Less than 95 % of a side's weight is in common functions.
    Unmatched {
        /// The smaller share of both sides.
        share: f64,
    },
    /// A side has no inlined calls, so both sides ignore them.
    WithoutInlined(Side),
    /// The caller's reservation.
    Reservation(String),
}

impl Caution {
    /// Returns true if it withholds verdicts.
    pub fn withholds(&self) -> bool {
        match self {
            Caution::Unmatched { share } => *share < 0.8,
            Caution::WithoutInlined(_) => false,
            _ => true,
        }
    }
}

/// Overall result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Equal amounts.
    Same,
    /// Only increases.
    Regressed,
    /// Only decreases.
    Improved,
    /// Increases and decreases.
    Mixed,
    /// Every amount changed by one factor.
    Uniform,
    /// Only [suspected](Verdict::Suspected) changes.
    Suspected,
    /// Cost moved between functions.
    Moved,
    /// The program changed by less than the threshold.
    BelowThreshold,
    /// No visible change of the program; any is smaller than the threshold.
    Unchanged,
    /// The program, or a function with a visible change, may have changed beyond the threshold.
    Inconclusive,
}
