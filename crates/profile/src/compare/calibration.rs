//! [`calibrate`]: measures noise by comparing runs of one program.
//!
//! Splits the runs into two sides repeatedly, at random. Each finding is a false alarm.

use rprof_statistics::RunSummary;
use rprof_statistics::random::{Dice, combinations};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{CompareError, CompareOptions, Design, Gate, ProfileDiff, Verdict, compare_each};
use crate::model::Profile;

/// Noise of equal runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Number of runs of each side.
    pub runs: usize,
    /// Number of comparisons.
    pub splits: usize,
    /// Intended false alarm rate.
    pub q: f64,
    /// Comparisons with any regression or improvement.
    pub alarms: usize,
    /// Comparisons that fail a gate.
    pub failed: usize,
    /// Number of regressions and of improvements: about equal without bias.
    pub directions: [usize; 2],
    /// Functions in false alarms with their counts, most frequent first.
    pub named: Vec<(String, usize)>,
    /// Amounts of the whole program, by run.
    pub whole: Vec<f64>,
    /// Comparison of alternate runs: smallest visible change, required runs.
    pub diff: ProfileDiff,
}

impl Calibration {
    /// Returns the false alarm rate, from 0 to 1.
    pub fn alarm_share(&self) -> f64 {
        self.alarms as f64 / self.splits.max(1) as f64
    }

    /// Returns true if the false alarm rate agrees with the [false discovery
    /// rate](CompareOptions::q), within two standard deviations.
    pub fn is_steady(&self) -> bool {
        let distinct = match self.diff.design {
            Design::Independent => {
                combinations(self.whole.len(), 2 * self.runs)
                    * combinations(2 * self.runs, self.runs)
            }
            Design::Paired => {
                combinations(self.whole.len() / 2, self.runs) * 2.0_f64.powi(self.runs as i32)
            }
        };
        let comparisons = (self.splits as f64).min(distinct / 2.0).max(1.0);
        self.alarm_share() <= self.q + 2.0 * (self.q * (1.0 - self.q) / comparisons).sqrt()
    }

    /// Summarizes the amounts of the whole program.
    pub fn summary(&self) -> Option<RunSummary> {
        RunSummary::of(&self.whole)
    }
}

/// Compares `runs` of the profiles with as many others, `splits` times.
///
/// The random splits are reproducible. In a [paired](CompareOptions::design) design, each split
/// randomly assigns adjacent profiles to different sides.
///
/// # Errors
/// [`CompareError`], also for fewer than `2 * runs` profiles.
pub fn calibrate(
    profiles: &[Profile],
    runs: usize,
    splits: usize,
    options: &CompareOptions,
) -> Result<Calibration, CompareError> {
    let few = rprof_statistics::MeasurementError::TooFewRuns {
        runs: profiles.len(),
    };
    if runs == 0 || profiles.len() < 2 * runs {
        return Err(few.into());
    }
    let in_turns = |from: usize| -> Vec<&Profile> {
        profiles.iter().skip(from).step_by(2).take(runs).collect()
    };
    let diff = compare_each([&in_turns(0), &in_turns(1)], options)?;
    let mut whole = Vec::with_capacity(profiles.len());
    for profile in profiles {
        let alone = compare_each([&[profile], &[profile]], options)?;
        whole.push(alone.whole.old);
    }
    let mut deck: Vec<&Profile> = profiles.iter().collect();
    let mut dice = Dice::new(profiles.len() as u64);
    let mut pairs: Vec<&[Profile]> = profiles.chunks_exact(2).collect();
    let mut deal = || match options.design {
        Design::Independent => {
            draw(&mut deck, 2 * runs, &mut dice);
            deck[..2 * runs].to_vec()
        }
        Design::Paired => {
            draw(&mut pairs, runs, &mut dice);
            let sides = pairs[..runs].iter().map(|pair| match dice.below(2) {
                0 => (&pair[0], &pair[1]),
                _ => (&pair[1], &pair[0]),
            });
            let (old, new): (Vec<_>, Vec<_>) = sides.unzip();
            [old, new].concat()
        }
    };
    let deals: Vec<Vec<&Profile>> = (0..splits).map(|_| deal()).collect();
    let threads = rprof_parallel::available();
    let alarms = rprof_parallel::map_chunks(threads, &deals, DEALS_TOGETHER, |deals| {
        let mut alarms = Alarms::default();
        for deal in deals {
            let (old, new) = deal.split_at(runs);
            alarms.add(&compare_each([old, new], options)?);
        }
        Ok::<_, CompareError>(alarms)
    });
    let mut all = Alarms::default();
    for alarms in alarms {
        all.join(alarms?);
    }
    Ok(Calibration {
        runs,
        splits,
        q: options.q,
        alarms: all.alarms,
        failed: all.failed,
        directions: all.directions,
        named: all.named(),
        whole,
        diff,
    })
}

fn draw<T>(deck: &mut [T], count: usize, dice: &mut Dice) {
    for at in 0..count {
        let other = at + dice.below(deck.len() - at);
        deck.swap(at, other);
    }
}

/// Comparisons per work item of a thread.
const DEALS_TOGETHER: usize = 4;

#[derive(Default)]
struct Alarms {
    alarms: usize,
    failed: usize,
    directions: [usize; 2],
    named: FxHashMap<String, usize>,
}

impl Alarms {
    fn add(&mut self, diff: &ProfileDiff) {
        let functions = diff.functions.iter().flat_map(|row| [&row.own, &row.total]);
        let mut is_alarm = false;
        for change in functions.chain([&diff.whole]) {
            let side = match change.verdict {
                Verdict::Regressed => 0,
                Verdict::Improved => 1,
                _ => continue,
            };
            self.directions[side] += 1;
            is_alarm = true;
        }
        self.alarms += usize::from(is_alarm);
        self.failed += usize::from(diff.gate() == Gate::Regressed);
        let is_named = |verdict| matches!(verdict, Verdict::Regressed | Verdict::Improved);
        let named: FxHashSet<&str> = (diff.functions.iter())
            .filter(|row| is_named(row.own.verdict) || is_named(row.total.verdict))
            .map(|row| row.name.as_deref().unwrap_or("[unknown]"))
            .collect();
        for name in named {
            *self.named.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn join(&mut self, other: Alarms) {
        self.alarms += other.alarms;
        self.failed += other.failed;
        for side in [0, 1] {
            self.directions[side] += other.directions[side];
        }
        for (name, times) in other.named {
            *self.named.entry(name).or_default() += times;
        }
    }

    fn named(self) -> Vec<(String, usize)> {
        let mut named: Vec<(String, usize)> = self.named.into_iter().collect();
        named.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, folded};

    fn runs(amounts: &[u64]) -> Vec<Profile> {
        let read = |(index, n): (usize, &u64)| {
            let text = format!(
                "main;f {n}\nmain;g {}\nmain;h 900\n",
                3000 + 11 * (index % 3)
            );
            folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap()
        };
        amounts.iter().enumerate().map(read).collect()
    }

    #[test]
    fn equal_runs_raise_few_alarms_and_the_figures_are_the_same_each_time() {
        let profiles = runs(&[1000, 1013, 990, 1004, 1021, 996, 985, 1010, 1002, 994]);
        let options = CompareOptions {
            threshold: 0.05,
            ..CompareOptions::default()
        };
        let found = calibrate(&profiles, 5, 100, &options).unwrap();
        assert_eq!((found.alarms, found.failed, found.splits), (0, 0, 100));
        assert_eq!(found.whole.len(), 10);
        assert!((found.whole[0] - 4900.0).abs() < 1e-9);
        assert!(found.diff.whole.visible.unwrap() > 0.05);
        assert!(found.is_steady());
        let of = |alarms| {
            Calibration {
                alarms,
                ..found.clone()
            }
            .is_steady()
        };
        assert_eq!([of(5), of(9), of(20), of(100)], [true, true, false, false]);
        assert_eq!(
            (combinations(10, 5), combinations(6, 0), combinations(40, 1)),
            (252.0, 1.0, 40.0)
        );
        assert_eq!(calibrate(&profiles, 5, 100, &options), Ok(found));
        assert!(calibrate(&profiles, 6, 10, &options).is_err());
        assert!(calibrate(&profiles, 0, 10, &options).is_err());
    }

    #[test]
    fn runs_of_two_programs_are_no_equal_runs() {
        let profiles = runs(&[1000, 1003, 998, 4000, 4010, 3990]);
        let found = calibrate(&profiles, 3, 200, &CompareOptions::default()).unwrap();
        assert!(found.alarms > 0 && found.alarms < 200, "{}", found.alarms);
        assert_eq!(found.named[0].0, "f");
        let [more, less] = found.directions;
        assert!(more > 0 && less > 0, "{more} {less}");
    }
}
