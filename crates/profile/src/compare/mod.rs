//! Comparison of two sets of profiles: what takes more, what takes less, and whether that is more than noise.
//!
//! Everything is a pure function of the profiles: no clock, no chance, no files. With sides swapped the result is
//! mirrored.
//!
//! | module | holds |
//! |---|---|
//! | [`canonical`] | names of functions and objects without what changes from build to build |
//! | `matching` | rows: which functions of both sides are one |
//! | `spelling`, `respelled` | names of one function that differ by who wrote them |
//! | `run`, `sides` | amounts of each row in each recording |
//! | `judge` | the comparison as a whole |
//! | `family` | verdicts of amounts that are judged together, by `rprof-statistics` |
//! | `reparented` | change of a total that is new work, told from calls that others made before |
//! | `shift` | cost that moved from one function to another, and change that all functions have in common |
//! | `callers` | calls between rows |
//! | `enclosing` | functions of both sides in which one of one side lies |
//! | `causes` | which function's change shows in the totals of its callers |
//! | `gate` | [`ProfileDiff::gate`]: may it pass, by which [rules](GateRules) |
//! | [`calibration`] | what equal runs look like: noise, alarms, the smallest change that would be seen |
//! | `renames` | guesses |
//! | `pairs` | [`MatchedFunctions`]: which functions of two profiles are one, for views that judge nothing |
//! | `result` | [`ProfileDiff`] and what it is made of |
//! | `stacks` | stacks of both sides |
//!
//! # Rules
//! - An amount is the weight of a run's samples (CPU time, events), or that per unit of [`Work`]. Self and total are
//!   judged together, with the [false discovery rate](CompareOptions::q) held by the [correction](CompareOptions::correction).
//! - What a run's amounts differ by is learned from the runs themselves. Of one run a side it is unknown: 5 % are
//!   assumed, and nothing is more than [suspected](Verdict::Suspected).
//! - A function whose samples are fewer than [`FEWEST_SAMPLES`] on both sides is not judged.
//! - What rose while its caller did not, and while others under that caller fell as much, has [moved](Verdict::Moved).
//! - A total counts as far as the functions below take more or less than before in the whole program: what another function
//!   called before has [moved](Verdict::Moved).
//! - What is new or gone counts if what it lies in surely changed along with it: other functions may do its work.
//! - If everything changed by one factor, no function is named: [`Outcome::Uniform`].

pub mod calibration;
mod callers;
pub mod canonical;
mod causes;
mod enclosing;
mod family;
mod gate;
mod judge;
mod matching;
mod pairs;
mod renames;
mod reparented;
mod respelled;
mod result;
mod run;
mod shift;
mod sides;
mod spelling;
mod stacks;

use std::path::PathBuf;

pub use calibration::{Calibration, calibrate};
pub use gate::{Gate, GateRules, Scope};
pub use pairs::MatchedFunctions;
pub use result::{
    Caution, Change, FunctionDiff, GuessedRename, Noise, Outcome, Presence, ProfileDiff,
    SideSummary, StackDiff, Verdict,
};
pub use rprof_statistics::{Correction, Design, Interval, Summary};

use crate::model::Profile;
use crate::top::WeighBy;
use crate::unit::WeightUnit;

/// Effective samples in the mean run of one side, from which on a function is judged.
pub const FEWEST_SAMPLES: f64 = 30.0;

/// Samples in the mean run of a side, below which it is a process that begins and ends, and no program to compare.
pub const FEWEST_OF_A_SIDE: f64 = 5.0;

/// Factor of samples for which [`Change::runs_needed_denser`] is told: 4,999 a second in place of 999.
pub const MORE_SAMPLES: f64 = 5.0;

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
    /// Largest share of false findings, of which 0.01 is the program's own, and the rest that of its functions.
    pub q: f64,
    /// Meaning of that share, and the correction of the functions' p-values that keeps it.
    pub correction: Correction,
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
            correction: Correction::default(),
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
    #[error("{} has {event}, {} has {other}: amounts of different events do not compare", path.display(), other_path.display())]
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
    #[error("{} does not state its amount of work", path.display())]
    NoWork {
        /// File of the profile.
        path: PathBuf,
    },
    /// The runs cannot be compared.
    #[error(transparent)]
    Statistics(#[from] rprof_statistics::CompareError),
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
