//! Result of a comparison: amounts on both sides, with verdicts.

use std::path::PathBuf;

use rprof_statistics::{Design, Interval};

use super::{GateRules, Side, Work};
use crate::unit::WeightUnit;

/// Result of comparing two sets of profiles.
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
    /// Guessed renames of functions.
    pub renames: Vec<GuessedRename>,
    /// Stacks, unsorted; empty unless [requested](super::CompareOptions::stacks).
    pub stacks: Vec<StackDiff>,
    /// Thread names of the stacks.
    pub comms: Vec<String>,
    /// Noise of a function between runs, without sampling noise.
    pub noise: Noise,
    /// Relative standard deviation of the whole program between runs of a side, or between pairs
    /// (0.02 for 2 %). `None` for one run per side, and for shares.
    pub whole_deviation: Option<f64>,
    /// Smallest relevant relative change.
    pub threshold: f64,
    /// Smallest relevant change of a function, as a share of the program.
    pub min_share: f64,
    /// Increase for [`Change::runs_needed`].
    pub wanted: f64,
    /// Rules of [`gate`](Self::gate).
    pub rules: GateRules,
    /// Design of the experiment: independent or paired runs.
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

    /// Returns the functions with a verdict for self or total.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &FunctionDiff> {
        (self.functions.iter())
            .filter(move |row| row.own.verdict == verdict || row.total.verdict == verdict)
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct SideSummary {
    /// Files of the profiles.
    pub paths: Vec<PathBuf>,
    /// Weight of each run.
    pub weights: Vec<u64>,
    /// Number of samples in all runs.
    pub samples: u64,
    /// Share of the weight in named functions that exist on both sides, from 0 to 1. Ignores
    /// unmatched functions with so few samples that the other side may lack them by chance.
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
    /// Amount of the mean run of the old side, per unit of work.
    pub old: f64,
    /// Amount of the mean run of the new side, per unit of work.
    pub new: f64,
    /// Effective number of samples in the mean run of each side.
    pub samples: [f64; 2],
    /// 95 % confidence interval of the ratio new / old. `None` without a verdict, or if a side has
    /// amount 0.
    pub interval: Option<Interval>,
    /// P-value of "no change beyond the threshold".
    pub p: Option<f64>,
    /// Smallest increase detectable with a power of 80 % (0.14 for 14 %).
    pub visible: Option<f64>,
    /// Runs per side for an 80 % chance to detect an increase of [`ProfileDiff::wanted`]. `None`
    /// without a verdict, or if no number suffices.
    pub runs_needed: Option<usize>,
    /// The same with [five times](super::MORE_SAMPLES) the samples per run.
    pub runs_needed_denser: Option<usize>,
    /// Result.
    pub verdict: Verdict,
}

impl Change {
    /// Returns new minus old.
    pub fn difference(&self) -> f64 {
        self.new - self.old
    }

    /// Returns new / old - 1: 0.2 for an increase by a fifth. `None` if a side has amount 0.
    pub fn relative(&self) -> Option<f64> {
        (self.old > 0.0 && self.new > 0.0).then(|| self.new / self.old - 1.0)
    }

    /// Returns true if an increase beyond the threshold is possible but uncertain.
    pub(super) fn may_exceed(&self, threshold: f64) -> bool {
        let is_open = matches!(self.verdict, Verdict::MayExceed | Verdict::Inconclusive);
        is_open && self.highest() > 1.0 + threshold
    }

    /// Returns the upper bound of the ratio new / old. Infinite for a new function.
    pub(super) fn highest(&self) -> f64 {
        match self.interval {
            Some(interval) => interval.high,
            None if self.new > self.old => f64::INFINITY,
            None => 0.0,
        }
    }

    /// Returns the absolute logarithm of the ratio new / old. Infinite for new and removed
    /// functions.
    pub(super) fn factor(&self) -> f64 {
        self.relative()
            .map_or(f64::INFINITY, |relative| relative.ln_1p().abs())
    }
}

/// Verdict on one amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Increase by at least the threshold.
    Regressed,
    /// Decrease by at least the threshold.
    Improved,
    /// Probable change, with a reservation: the noise is assumed, the sides are hardly comparable,
    /// or other functions may do the work of a new or removed function.
    Suspected,
    /// Change without new work: other callees of the same caller changed by as much in the other
    /// direction, the calls had another caller before, or a new or removed function left its
    /// enclosing function unchanged.
    Moved,
    /// Change by the common factor of all functions.
    WithAll,
    /// Change by at least the threshold, but below the [minimum
    /// share](super::CompareOptions::min_share) of the program.
    BelowShare,
    /// Change by less than the threshold.
    BelowThreshold,
    /// Change that may or may not reach the threshold.
    MayExceed,
    /// No detected change. Any change is smaller than the threshold.
    Unchanged,
    /// Too much noise: no detected change, but one beyond the threshold is possible.
    Inconclusive,
    /// Too few samples.
    TooSmall,
}

impl Verdict {
    /// All verdicts, gravest first.
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

    /// Returns true for a change or a suspected change.
    pub(super) fn is_change(self) -> bool {
        self.is_marked() && self != Verdict::Moved
    }

    /// Returns true if views mark the verdict as a finding.
    pub fn is_marked(self) -> bool {
        matches!(
            self,
            Verdict::Regressed | Verdict::Improved | Verdict::Suspected | Verdict::Moved
        )
    }
}

/// Sides on which a function has samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Both sides.
    Both,
    /// Only the old side: the function was removed.
    OnlyOld,
    /// Only the new side.
    OnlyNew,
}

/// A function on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDiff {
    /// Canonical name; `None` for the unnamed code of an object. May contain any character: escape
    /// it for display.
    pub name: Option<Box<str>>,
    /// Canonical name of the object. May contain any character.
    pub object: Box<str>,
    /// Sides with samples.
    pub presence: Presence,
    /// Self amount of the function.
    pub own: Change,
    /// Total amount of the function.
    pub total: Change,
    /// Index of the function that lost what this one gained, or vice versa.
    pub counterpart: Option<usize>,
    /// Index of the changed function below this one that explains most of the total's change.
    /// `None` if the function itself changed, or if its total did not.
    pub explained_by: Option<usize>,
}

impl FunctionDiff {
    /// Returns true for a new or removed function: the mean run of one side has less than one
    /// sample.
    pub(super) fn is_of_one_side(&self) -> bool {
        let [old, new] = self.total.samples;
        self.presence != Presence::Both || old.min(new) < 1.0
    }

    /// Returns true if self or total is [marked](Verdict::is_marked).
    pub fn is_marked(&self) -> bool {
        self.own.verdict.is_marked() || self.total.verdict.is_marked()
    }
}

/// A guessed rename. It influences no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessedRename {
    /// Index of the removed function.
    pub old: usize,
    /// Index of the new function.
    pub new: usize,
}

/// A stack on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct StackDiff {
    /// Thread name: an index into [`ProfileDiff::comms`].
    pub comm: u32,
    /// Indexes of the functions, root first.
    pub rows: Box<[u32]>,
    /// Total weight of the old and the new runs.
    pub weights: [u64; 2],
    /// Amount of the mean run, old and new, per unit of work.
    pub amounts: [f64; 2],
}

/// Relative noise between runs of one program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Estimated from several runs per side.
    Learned(f64),
    /// Given by the user.
    Given(f64),
    /// Assumed, because there is one run per side.
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
    /// A side's mean run has [too few](super::FEWEST_OF_A_SIDE) samples: this number.
    FewSamples(Side, f64),
    /// A side lost this share of its records, more than 1 %.
    Lost(Side, f64),
    /// A side has this number of incomplete or unreadable recordings.
    Damaged(Side, usize),
    /// The shares of complete stacks differ by more than 5 percentage points.
    Completeness {
        /// Share of the old side.
        old: f64,
        /// Share of the new side.
        new: f64,
    },
    /// Less than 95 % of a side's weight is in functions of both sides.
    Unmatched {
        /// The smaller of the two shares.
        share: f64,
    },
    /// This side has no inlined calls, so the comparison ignores them on both sides.
    WithoutInlined(Side),
    /// A reservation of the caller.
    Reservation(String),
}

impl Caution {
    /// Returns true if the caution withholds verdicts.
    pub fn withholds(&self) -> bool {
        match self {
            Caution::Unmatched { share } => *share < 0.8,
            Caution::WithoutInlined(_) => false,
            _ => true,
        }
    }
}

/// Overall result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All amounts are equal.
    Same,
    /// Only increases.
    Regressed,
    /// Only decreases.
    Improved,
    /// Increases and decreases.
    Mixed,
    /// Everything changed by one factor.
    Uniform,
    /// Only [suspected](Verdict::Suspected) changes.
    Suspected,
    /// Cost moved between functions.
    Moved,
    /// The program changed by less than the threshold.
    BelowThreshold,
    /// No detected change of the program. Any change is smaller than the threshold.
    Unchanged,
    /// The program, or a function with an observed change, may have changed beyond the threshold.
    Inconclusive,
}
