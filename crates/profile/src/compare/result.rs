//! Result of a comparison: amounts on both sides, and what is said of them.

use std::path::PathBuf;

use rprof_statistics::{Design, Interval};

use super::{GateRules, Side, Work};
use crate::unit::WeightUnit;

/// Two sets of profiles, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileDiff {
    /// Name of the event.
    pub event: String,
    /// Unit of the weights.
    pub unit: WeightUnit,
    /// Divisor of amounts.
    pub work: Work,
    /// The side before.
    pub old: SideSummary,
    /// The side after.
    pub new: SideSummary,
    /// Amounts of the whole program.
    pub whole: Change,
    /// Functions, by name.
    pub functions: Vec<FunctionDiff>,
    /// Guessed new names of functions.
    pub renames: Vec<GuessedRename>,
    /// Stacks, in no order; empty unless [asked for](super::CompareOptions::stacks).
    pub stacks: Vec<StackDiff>,
    /// Names of threads of the stacks.
    pub comms: Vec<String>,
    /// Noise between runs, of a function, beside what sampling adds to it.
    pub noise: Noise,
    /// Standard deviation of the whole program between runs of a side, or of pairs, 0.02 for 2 %; `None` for one run a side, and of
    /// shares.
    pub whole_deviation: Option<f64>,
    /// Smallest change that matters, as asked for.
    pub threshold: f64,
    /// Smallest change of a function that counts, as a share of the program.
    pub min_share: f64,
    /// Rise that [`Change::runs_needed`] is about.
    pub wanted: f64,
    /// Rules of [`gate`](Self::gate).
    pub rules: GateRules,
    /// Way in which the runs were made.
    pub design: Design,
    /// Things to know before the verdict is believed.
    pub cautions: Vec<Caution>,
    /// Result in one word.
    pub outcome: Outcome,
}

impl ProfileDiff {
    /// Returns whether what is found is more than suspected: the noise is known, and no caution speaks against it.
    pub fn is_certain(&self) -> bool {
        !matches!(self.noise, Noise::Assumed(_)) && !self.cautions.iter().any(Caution::withholds)
    }

    /// Returns the functions of a verdict, by self or total.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &FunctionDiff> {
        (self.functions.iter())
            .filter(move |row| row.own.verdict == verdict || row.total.verdict == verdict)
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct SideSummary {
    /// Files of its profiles.
    pub paths: Vec<PathBuf>,
    /// Weight of each run.
    pub weights: Vec<u64>,
    /// Number of samples of all runs.
    pub samples: u64,
    /// Share of its weight in named functions that the other side has too, from 0 to 1. Functions of so few samples that the
    /// other side may lack them by chance count only where it has them.
    pub matched: f64,
    /// Share of stacks that reach their root, where it is known.
    pub complete: Option<f64>,
    /// Share of records that were lost.
    pub lost: f64,
    /// Number of recordings of which a part is missing.
    pub damaged: usize,
}

/// Amount on both sides, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Amount of the mean run before, per unit of work.
    pub old: f64,
    /// Amount of the mean run after, per unit of work.
    pub new: f64,
    /// Effective number of samples of the mean run of each side.
    pub samples: [f64; 2],
    /// Interval in which new over old lies, at 95 %; `None` where it was not judged, or one side has nothing.
    pub interval: Option<Interval>,
    /// P-value of "no change beyond the threshold".
    pub p: Option<f64>,
    /// Smallest rise that would have been seen in four of five cases: 0.14 for 14 %.
    pub visible: Option<f64>,
    /// Runs of each side that would show a rise of [`ProfileDiff::wanted`] in four of five cases; `None` if none would, or it was not judged.
    pub runs_needed: Option<usize>,
    /// The same if runs had [five times](super::MORE_SAMPLES) the samples.
    pub runs_needed_denser: Option<usize>,
    /// Result.
    pub verdict: Verdict,
}

impl Change {
    /// Returns new minus old.
    pub fn difference(&self) -> f64 {
        self.new - self.old
    }

    /// Returns new over old, less one: 0.2 for a fifth more. `None` where there was nothing before or is nothing now.
    pub fn relative(&self) -> Option<f64> {
        (self.old > 0.0 && self.new > 0.0).then(|| self.new / self.old - 1.0)
    }

    /// Returns whether a rise beyond the threshold is not excluded, though none is sure.
    pub(super) fn may_exceed(&self, threshold: f64) -> bool {
        let is_open = matches!(self.verdict, Verdict::MayExceed | Verdict::Inconclusive);
        is_open && self.highest() > 1.0 + threshold
    }

    /// Returns the highest ratio of new over old that its interval has: infinite for what is new.
    pub(super) fn highest(&self) -> f64 {
        match self.interval {
            Some(interval) => interval.high,
            None if self.new > self.old => f64::INFINITY,
            None => 0.0,
        }
    }

    /// Returns by how much it changed as a logarithm, without direction: infinite for what is new or gone.
    pub(super) fn factor(&self) -> f64 {
        self.relative()
            .map_or(f64::INFINITY, |relative| relative.ln_1p().abs())
    }
}

/// Result of one amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It takes more, by at least the threshold.
    Regressed,
    /// It takes less, by at least the threshold.
    Improved,
    /// It changed, if runs of one program differ as little as was assumed, if the sides compare, or, for what is new or gone,
    /// if nothing else does its work.
    Suspected,
    /// It changed, and what it lost or gained stands under the same caller; or it calls what others called before; or it is new
    /// or gone, and what it lies in did not change along with it.
    Moved,
    /// It changed as everything did.
    WithAll,
    /// It changed by at least the threshold, and that is less than the [smallest share](super::CompareOptions::min_share) of the
    /// program that counts.
    BelowShare,
    /// It changed, and by less than the threshold.
    BelowThreshold,
    /// It changed, and whether by the threshold or more is not sure.
    MayExceed,
    /// No change is seen, and any is smaller than the threshold.
    Unchanged,
    /// Runs differ too much to tell whether it changed, and it may be by the threshold or more.
    Inconclusive,
    /// It has too few samples to be judged.
    TooSmall,
}

impl Verdict {
    /// Every verdict, the gravest first.
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

    /// Returns whether an amount is said to be another than before, or suspected to be.
    pub(super) fn is_change(self) -> bool {
        self.is_marked() && self != Verdict::Moved
    }

    /// Returns whether a change is marked.
    pub fn is_marked(self) -> bool {
        matches!(
            self,
            Verdict::Regressed | Verdict::Improved | Verdict::Suspected | Verdict::Moved
        )
    }
}

/// Side on which a function has samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Both.
    Both,
    /// The old side: it is gone.
    OnlyOld,
    /// The new side.
    OnlyNew,
}

/// A function on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDiff {
    /// Canonical name; `None` for the part of an object that has no names. May hold any character: escape it before
    /// showing it.
    pub name: Option<Box<str>>,
    /// Canonical name of its object. May hold any character.
    pub object: Box<str>,
    /// Side that has it.
    pub presence: Presence,
    /// Self amount of the function.
    pub own: Change,
    /// Total amount of the function.
    pub total: Change,
    /// Function, by index, that lost what this one gained, or gained what it lost.
    pub counterpart: Option<usize>,
    /// Changed function below this one, by index, in which most of the change of this one's total lies; `None` for a function
    /// that changed by itself, and for one whose total did not.
    pub explained_by: Option<usize>,
}

impl FunctionDiff {
    /// Returns whether the function is new or gone: the mean run of one side has no sample of it, or less than one.
    pub(super) fn is_of_one_side(&self) -> bool {
        let [old, new] = self.total.samples;
        self.presence != Presence::Both || old.min(new) < 1.0
    }

    /// Returns whether self or total is [marked](Verdict::is_marked).
    pub fn is_marked(&self) -> bool {
        self.own.verdict.is_marked() || self.total.verdict.is_marked()
    }
}

/// Functions of which the one may be the other's new name. Nothing is judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessedRename {
    /// Function that is gone, by index.
    pub old: usize,
    /// Function that is new, by index.
    pub new: usize,
}

/// A stack on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct StackDiff {
    /// Name of the thread: an index into [`ProfileDiff::comms`].
    pub comm: u32,
    /// Functions, root first, by index.
    pub rows: Box<[u32]>,
    /// Weight of all runs, old and new.
    pub weights: [u64; 2],
    /// Amount of the mean run, old and new, per unit of work.
    pub amounts: [f64; 2],
}

/// Noise between runs of one program, as a share of an amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Learned from several runs of a side.
    Learned(f64),
    /// Given by the user.
    Given(f64),
    /// Assumed, as there is one run a side.
    Assumed(f64),
}

impl Noise {
    /// Returns the standard deviation, 0.02 for 2 %.
    pub fn deviation(self) -> f64 {
        match self {
            Noise::Learned(deviation) | Noise::Given(deviation) | Noise::Assumed(deviation) => {
                deviation
            }
        }
    }
}

/// Thing to know before a verdict is believed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Caution {
    /// The mean run of a side has so many samples, which are [too few](super::FEWEST_OF_A_SIDE).
    FewSamples(Side, f64),
    /// A side lost more than 1 % of its records.
    Lost(Side, f64),
    /// Recordings of a side of which a part is missing or cannot be read.
    Damaged(Side, usize),
    /// Shares of complete stacks that are more than 5 points apart.
    Completeness {
        /// Share of the old side.
        old: f64,
        /// Share of the new side.
        new: f64,
    },
    /// Less than 95 % of a side is in functions that both have.
    Unmatched {
        /// Smaller of the two shares.
        share: f64,
    },
    /// One side has no inlined calls: they are left out of both.
    WithoutInlined(Side),
    /// A reservation of the caller's.
    Reservation(String),
}

impl Caution {
    /// Returns whether it keeps the comparison from being judged.
    pub fn withholds(&self) -> bool {
        match self {
            Caution::Unmatched { share } => *share < 0.8,
            Caution::WithoutInlined(_) => false,
            _ => true,
        }
    }
}

/// Result of a comparison in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All amounts are equal.
    Same,
    /// Something takes more, and nothing less.
    Regressed,
    /// Something takes less, and nothing more.
    Improved,
    /// Some functions take more, others less.
    Mixed,
    /// Everything takes more or less by one factor.
    Uniform,
    /// Something is [suspected](Verdict::Suspected), and nothing sure.
    Suspected,
    /// Cost moved between functions.
    Moved,
    /// The program changed, and by less than the threshold.
    BelowThreshold,
    /// No change of the program is seen, and any is smaller than the threshold.
    Unchanged,
    /// The program, or a function that changed, may have changed by the threshold or more, which is not sure.
    Inconclusive,
}
