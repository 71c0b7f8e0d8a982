//! Comparison of two sets of profiles: what takes more, what takes less, and whether that is more than noise.
//!
//! Everything is a pure function of the profiles: no clock, no chance, no files. With sides swapped the result is
//! mirrored.
//!
//! | module | holds |
//! |---|---|
//! | [`canonical`] | names of functions and objects without what changes from build to build |
//! | `matching` | rows: which functions of both sides are one |
//! | `run`, `sides` | amounts of each row in each recording |
//! | `judge` | verdicts, by `rprof-statistics` |
//! | `shift` | cost that moved from one function to another, and change that all functions have in common |
//! | `callers` | calls between rows |
//! | `gate` | [`ProfileDiff::gate`]: may it pass, by which [rules](GateRules) |
//! | [`calibration`] | what equal runs look like: noise, alarms, the smallest change that would be seen |
//! | `renames` | guesses |
//! | `stacks` | stacks of both sides |
//!
//! # Rules
//! - An amount is the weight of a run's samples (CPU time, events), or that per unit of [`Work`]. Self and total are
//!   judged apart, each with the false discovery rate held (Benjamini and Hochberg).
//! - What a run's amounts differ by is learned from the runs themselves. Of one run a side it is unknown: 5 % are
//!   assumed, and nothing is more than [suspected](Verdict::Suspected).
//! - A function whose samples are fewer than [`FEWEST_SAMPLES`] on both sides is not judged.
//! - What rose while its caller did not, and while others under that caller fell as much, has [moved](Verdict::Moved).
//! - If everything changed by one factor, no function is named: [`Outcome::Uniform`].

pub mod calibration;
mod callers;
pub mod canonical;
mod gate;
mod judge;
mod matching;
mod renames;
mod run;
mod shift;
mod sides;
mod stacks;

use std::path::PathBuf;

pub use calibration::{Calibration, calibrate};
pub use gate::{Gate, GateRules, Scope};
pub use rprof_statistics::{Design, Interval, Summary};

use crate::model::Profile;
use crate::top::WeighBy;
use crate::unit::WeightUnit;

/// Effective samples in the mean run of one side, from which on a function is judged.
pub const FEWEST_SAMPLES: f64 = 30.0;

/// Noise between runs that is assumed of one run a side: 5 %.
pub const ASSUMED_NOISE: f64 = 0.05;

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side before: the base.
    Old,
    /// The side after.
    New,
}

/// Amount of work by which amounts are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Work {
    /// Nothing: the amount of a run.
    #[default]
    Run,
    /// Units of work that each run of a side did, such as requests.
    Units {
        /// Units of each run of the old side.
        old: f64,
        /// Units of each run of the new side.
        new: f64,
    },
    /// Seconds from the first to the last sample.
    Seconds,
    /// The amount of the whole run: shares of it. A change of the whole program cannot be seen then.
    Share,
}

/// Rules of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Weight of a sample.
    pub weigh_by: WeighBy,
    /// Divisor of amounts.
    pub work: Work,
    /// Generic functions are one, whatever their arguments.
    pub fold_generics: bool,
    /// Way in which the runs were made.
    pub design: Design,
    /// Noise between runs of one program, 0.02 for 2 %, where it is known; else it is learned or assumed.
    pub noise: Option<f64>,
    /// Smallest change that matters, 0.05 for 5 %.
    pub threshold: f64,
    /// Smallest change that matters, as a share of the program: 0.005 for 0.5 %.
    pub min_share: f64,
    /// False discovery rate.
    pub q: f64,
    /// Reasons, in sentences, for which the sides are not to be judged, such as other machines.
    pub reservations: Vec<String>,
    /// Rise for which it is told how many runs would show it; `None` for twice the threshold.
    pub wanted: Option<f64>,
    /// Rules of [`ProfileDiff::gate`].
    pub rules: GateRules,
    /// Keep the stacks of both sides: [`ProfileDiff::stacks`].
    pub stacks: bool,
}

impl CompareOptions {
    /// Returns the rise for which it is told how many runs would show it.
    fn wanted_rise(&self) -> f64 {
        self.wanted.unwrap_or(2.0 * self.threshold)
    }
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions {
            weigh_by: WeighBy::Period,
            work: Work::Run,
            fold_generics: false,
            design: Design::Independent,
            noise: None,
            threshold: 0.01,
            min_share: 0.005,
            q: 0.05,
            reservations: Vec::new(),
            wanted: None,
            rules: GateRules::default(),
            stacks: false,
        }
    }
}

/// Failure to compare.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A side has no profile.
    #[error("a side has no profile")]
    NoProfiles,
    /// A profile has no samples, or none of any weight.
    #[error("{} has no sample to compare", path.display())]
    NoSamples {
        /// File of the profile.
        path: PathBuf,
    },
    /// The profiles are of different events, or of different parts of the system.
    #[error("{} has samples of {event}, {} of {other}: amounts of different events do not compare", path.display(), other_path.display())]
    OtherEvent {
        /// File of one profile.
        path: PathBuf,
        /// Event of the first profile.
        event: String,
        /// File of the other profile.
        other_path: PathBuf,
        /// Event of the other profile.
        other: String,
    },
    /// Nothing is known to divide by.
    #[error("{} does not tell its amount of work", path.display())]
    NoWork {
        /// File of the profile.
        path: PathBuf,
    },
    /// The runs cannot be compared.
    #[error(transparent)]
    Statistics(#[from] rprof_statistics::CompareError),
}

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
    /// Stacks, in no order; empty unless [asked for](CompareOptions::stacks).
    pub stacks: Vec<StackDiff>,
    /// Names of threads of the stacks.
    pub comms: Vec<String>,
    /// Noise between runs.
    pub noise: Noise,
    /// Smallest change that matters, as asked for.
    pub threshold: f64,
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
    /// Share of its weight in named functions that the other side has too, from 0 to 1.
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
}

/// Result of one amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It takes more, by at least the threshold.
    Regressed,
    /// It takes less, by at least the threshold.
    Improved,
    /// It would have changed, if runs of one program differed as little as was assumed.
    Suspected,
    /// It changed, and what it lost or gained stands under the same caller.
    Moved,
    /// It changed as everything did.
    WithAll,
    /// It changed, and was not shown to reach the threshold.
    BelowThreshold,
    /// Any change is smaller than the threshold.
    Unchanged,
    /// Runs differ too much to tell.
    Inconclusive,
    /// It has too few samples to be judged.
    TooSmall,
}

impl Verdict {
    /// Every verdict, the gravest first.
    pub const ALL: [Verdict; 9] = [
        Verdict::Regressed,
        Verdict::Improved,
        Verdict::Suspected,
        Verdict::Moved,
        Verdict::WithAll,
        Verdict::BelowThreshold,
        Verdict::Unchanged,
        Verdict::Inconclusive,
        Verdict::TooSmall,
    ];

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
    /// Something would have changed if runs differed as little as was assumed.
    Suspected,
    /// Cost moved between functions.
    Moved,
    /// Nothing changed by more than the threshold.
    Unchanged,
    /// The noise hides what may have changed.
    Inconclusive,
}

/// Compares two sets of profiles, of which each is one run.
///
/// The first event with samples counts of each profile.
///
/// # Errors
/// [`CompareError`].
///
/// # Examples
/// ```
/// use rprof_profile::compare::{CompareOptions, Presence, Verdict, compare};
/// use rprof_profile::{Filter, folded};
///
/// let read = |text: &str| folded::read(text.as_bytes(), "x".as_ref(), &Filter::default());
/// let old = [1000, 1010, 990].map(|n| read(&format!("main;parse {n}\nmain;ascii {}\n", n / 2)));
/// let new = [2000, 1990, 2010].map(|n| read(&format!("main;parse {n}\nmain;utf8 {}\n", n / 4)));
/// let sides = [old, new].map(|side| side.map(Result::unwrap));
/// let diff = compare(&sides[0], &sides[1], &CompareOptions::default())?;
///
/// let parse = diff.functions.iter().find(|row| row.name.as_deref() == Some("parse")).unwrap();
/// assert_eq!((parse.own.old, parse.own.new), (1000.0, 2000.0));
/// assert_eq!(parse.own.verdict, Verdict::Suspected); // Of 67 % of the samples the names are matched.
/// let gone = diff.functions.iter().find(|row| row.presence == Presence::OnlyOld).unwrap();
/// assert_eq!(gone.name.as_deref(), Some("ascii"));
/// # Ok::<(), rprof_profile::compare::CompareError>(())
/// ```
pub fn compare(
    old: &[Profile],
    new: &[Profile],
    options: &CompareOptions,
) -> Result<ProfileDiff, CompareError> {
    let [old, new] = [old, new].map(|side| side.iter().collect::<Vec<_>>());
    compare_each([&old, &new], options)
}

/// Compares profiles that need not stand next to each other.
fn compare_each(
    profiles: [&[&Profile]; 2],
    options: &CompareOptions,
) -> Result<ProfileDiff, CompareError> {
    let (event, unit) = event_of(profiles)?;
    let sides = sides::Sides::of(profiles, options)?;
    let mut diff = judge::judge(&sides, options)?;
    diff.event = event;
    diff.unit = match options.weigh_by {
        WeighBy::Period => unit,
        WeighBy::Samples => WeightUnit::Samples,
    };
    diff.renames = renames::guess(&sides, &diff.functions);
    if options.stacks {
        (diff.stacks, diff.comms) = stacks::stacks(&sides);
    }
    Ok(diff)
}

/// Returns the event that all profiles are of, and its unit.
fn event_of([old, new]: [&[&Profile]; 2]) -> Result<(String, WeightUnit), CompareError> {
    let Some((first, _)) = old.first().zip(new.first()) else {
        return Err(CompareError::NoProfiles);
    };
    let mut found = None;
    for profile in old.iter().chain(new) {
        let event = (profile.main_event().map(|index| &profile.events[index]))
            .filter(|event| event.weight > 0);
        let Some(event) = event else {
            let path = profile.source.clone();
            return Err(CompareError::NoSamples { path });
        };
        let (name, unit) = found.get_or_insert_with(|| (event.name.clone(), event.unit.clone()));
        if without_precision(name) != without_precision(&event.name) || *unit != event.unit {
            return Err(CompareError::OtherEvent {
                path: first.source.clone(),
                event: name.clone(),
                other_path: profile.source.clone(),
                other: event.name.clone(),
            });
        }
    }
    found.ok_or(CompareError::NoProfiles)
}

/// Returns an event's name without modifiers that change where a sample is taken and not what is counted.
fn without_precision(name: &str) -> String {
    match name.rsplit_once([':', '/']) {
        Some((event, modifiers)) if modifiers.bytes().all(|b| b"ukhpPHG".contains(&b)) => {
            let scope = modifiers.replace(['p', 'P', 'H'], "");
            format!("{event}:{scope}")
        }
        _ => format!("{name}:"),
    }
}

#[cfg(test)]
#[allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]
mod tests;
