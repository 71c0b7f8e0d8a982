//! Statistical comparison of two sets of profiles: which functions became more or less expensive,
//! beyond noise.
//!
//! [`compare()`] is a pure function of the profiles: no clock, no chance, no files. Swapped sides
//! give a mirrored result.
//!
//! # Rules
//! - An amount is the weight of a run's samples, or the weight per unit of [`Work`]. Self and total
//!   are judged together. The [correction](CompareOptions::correction) controls the [false
//!   discovery rate](CompareOptions::q).
//! - The noise is estimated from the runs. With one run per side, 5 % are assumed, and findings are
//!   at most [suspected](Verdict::Suspected).
//! - Functions with fewer than [`MIN_SAMPLES`] samples on both sides get no verdict.
//! - Work has [moved](Verdict::Moved) if a function rose, its caller did not, and other callees of
//!   this caller fell as much.
//! - A total's change counts only as far as the functions below it changed. Otherwise the calls
//!   [moved](Verdict::Moved) from another caller.
//! - A new or removed function counts only if its enclosing function certainly changed as well:
//!   other functions may do its work.
//! - If everything changed by one factor, functions have no findings: [`Outcome::Uniform`].

pub mod calibration;
mod callers;
pub mod canonical;
mod causes;
mod enclosing;
mod family;
mod gate;
mod gate_rules;
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
pub use gate::Gate;
pub use gate_rules::{GateRules, Scope};
pub use pairs::MatchedFunctions;
pub use result::{
    Caution, Change, FunctionDiff, GuessedRename, Noise, Outcome, Presence, ProfileDiff,
    SideSummary, StackDiff, Verdict,
};
pub use rprof_statistics::{Correction, Design, Interval, RunSummary};

use crate::event_names::split_modifiers;
use crate::model::Profile;
use crate::unit::WeightUnit;
use crate::views::top::WeighBy;

/// Minimum number of effective samples for a verdict on a function, in one side's mean run.
pub const MIN_SAMPLES: f64 = 30.0;

/// Minimum samples in a side's mean run. With fewer, a program only starts and exits.
pub(crate) const MIN_OF_A_SIDE: f64 = 5.0;

/// Factor for [`Change::runs_needed_denser`]: 4,999 samples per second instead of 999.
pub const MORE_SAMPLES: f64 = 5.0;

/// Assumed noise between runs, for one run per side: 5 %.
pub const ASSUMED_NOISE: f64 = 0.05;

/// Old or new side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The base.
    Old,
    /// The side to compare with the base.
    New,
}

/// Divisor of amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Work {
    /// Whole run: amounts are not divided.
    #[default]
    Run,
    /// Units of work per run, such as requests.
    Units {
        /// Units per run of the old side.
        old: f64,
        /// Units per run of the new side.
        new: f64,
    },
    /// Seconds from the first to the last sample.
    Seconds,
    /// The whole run's amount, for shares. Hides changes of the whole program.
    Share,
}

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Weight of a sample.
    pub weigh_by: WeighBy,
    /// Divisor of amounts.
    pub work: Work,
    /// Merge instances of generic functions.
    pub fold_generics: bool,
    /// Independent or paired runs.
    pub design: Design,
    /// Relative noise between runs (0.02 for 2 %). `None` to estimate or assume it.
    pub noise: Option<f64>,
    /// Smallest relevant relative change (0.05 for 5 %).
    pub threshold: f64,
    /// Smallest relevant share of the program (0.005 for 0.5 %).
    pub min_share: f64,
    /// Maximum false discovery rate: 0.01 for the whole program, the rest for functions.
    pub q: f64,
    /// Correction of the functions' p-values, with the kind of error rate.
    pub correction: Correction,
    /// Reasons against a verdict, as sentences, such as different machines.
    pub reservations: Vec<String>,
    /// Increase for the estimate of required runs. `None` for twice the threshold.
    pub wanted: Option<f64>,
    /// Rules of [`ProfileDiff::gate`].
    pub rules: GateRules,
    /// Store the stacks of both sides: [`ProfileDiff::stacks`].
    pub stacks: bool,
}

impl CompareOptions {
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

/// Error of a comparison.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A side has no profile.
    #[error("a side has no profile")]
    NoProfiles,
    /// A profile has no samples, or only weights of 0.
    #[error("{} has no sample to compare", path.display())]
    NoSamples {
        /// File of the profile.
        path: PathBuf,
    },
    /// The events differ, or their scopes (user, kernel).
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
    /// A run has no divisor.
    #[error("{} does not state its amount of work", path.display())]
    NoWork {
        /// File of the profile.
        path: PathBuf,
    },
    /// The runs cannot be compared.
    #[error(transparent)]
    Statistics(#[from] rprof_statistics::MeasurementError),
}

/// Compares two sets of profiles. Each profile is a run; its first event with samples counts.
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

fn compare_each(
    profiles: [&[&Profile]; 2],
    options: &CompareOptions,
) -> Result<ProfileDiff, CompareError> {
    let (event, unit) = event_of(profiles)?;
    let sides = sides::Sides::of(profiles, options)?;
    let mut diff = judge::judge(&sides, options)?;
    diff.event = event;
    diff.is_by_request =
        (profiles.iter().copied().flatten()).any(|side| side.request_key.is_some());
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

/// Removes modifiers that do not change the count: precision, how the event is opened, and `H`, the
/// default.
fn without_precision(name: &str) -> String {
    let (event, modifiers) = split_modifiers(name);
    let scope = modifiers.replace(|letter| !"ukhGI".contains(letter), "");
    format!("{event}:{scope}")
}

#[cfg(test)]
#[allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]
mod tests;
