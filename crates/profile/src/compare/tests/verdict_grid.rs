//! Simulated pairs over a grid of increases, decreases, spreads and thresholds: no verdict
//! contradicts an interval, nor the truth more often than promised.

use rprof_testing::Random;

use super::simulated::normal;
use super::*;

/// Runs per side.
const RUNS: usize = 6;

#[derive(Clone, Copy, Debug)]
struct Cell {
    rise: f64,
    spread: f64,
    limit: f64,
    alone: bool,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for rise in [
        -0.3, -0.06, -0.048, -0.02, 0.0, 0.02, 0.035, 0.048, 0.052, 0.08, 0.3,
    ] {
        for spread in [0.001, 0.004, 0.01, 0.03, 0.1] {
            for limit in [0.01, 0.05, 0.2] {
                for alone in [false, true] {
                    cells.push(Cell {
                        rise,
                        spread,
                        limit,
                        alone,
                    });
                }
            }
        }
    }
    cells
}

impl Cell {
    fn compare(&self, random: &mut Random) -> ProfileDiff {
        let mut side = |rise: f64| -> Vec<Profile> {
            (0..RUNS)
                .map(|_| {
                    let whole = (self.spread * normal(random)).exp();
                    let rest = if self.alone {
                        whole
                    } else {
                        whole * (1.0 + rise)
                    };
                    profile(&[
                        (
                            "main;alpha".into(),
                            (60_000.0 * whole * (1.0 + rise)) as u64,
                        ),
                        ("main;beta".into(), (30_000.0 * rest) as u64),
                        ("main;gamma".into(), (10_000.0 * rest) as u64),
                    ])
                })
                .collect()
        };
        let [old, new] = [side(0.0), side(self.rise)];
        let options = CompareOptions {
            threshold: self.limit,
            // Paired, so that a uniform increase is the program's.
            design: Design::Paired,
            ..CompareOptions::default()
        };
        compare(&old, &new, &options).unwrap()
    }
}

fn check_words(cell: Cell, diff: &ProfileDiff) {
    let (low, high) = (1.0 / (1.0 + cell.limit), 1.0 + cell.limit);
    let functions = diff.functions.iter().flat_map(|row| [&row.own, &row.total]);
    for change in functions.chain([&diff.whole]) {
        let Some(interval) = change.interval else {
            continue;
        };
        let (inside, has_none) = (
            low < interval.low && interval.high < high,
            interval.contains(1.0),
        );
        let fits = match change.verdict {
            Verdict::Regressed => interval.low >= high,
            Verdict::Improved => interval.high <= low,
            Verdict::Unchanged => inside && has_none,
            Verdict::BelowThreshold => inside && !has_none,
            Verdict::MayExceed => !inside && !has_none,
            Verdict::Inconclusive => !inside,
            Verdict::BelowShare => {
                change.difference().abs() < diff.min_share * diff.whole.old.max(diff.whole.new)
            }
            Verdict::WithAll => diff.outcome == Outcome::Uniform,
            _ => true,
        };
        assert!(fits, "{cell:?}: {change:?}");
    }
    let whole = diff.whole.interval.unwrap();
    let is_open = whole.high > high;
    let says = match diff.outcome {
        Outcome::Unchanged => whole.contains(1.0) && low < whole.low && !is_open,
        Outcome::BelowThreshold => !whole.contains(1.0) && low < whole.low && !is_open,
        _ => true,
    };
    assert!(says, "{cell:?}: {:?} {whole:?}", diff.outcome);
    let has_risen = diff.failing().next().is_some() || diff.whole.verdict == Verdict::Regressed;
    match diff.gate() {
        Gate::Passed => {
            assert!(!is_open && !has_risen, "{cell:?}: {whole:?}");
            let alpha = &row(diff, "alpha").own;
            let may = alpha.verdict == Verdict::MayExceed && alpha.interval.unwrap().high > high;
            assert!(!may, "{cell:?}: {alpha:?}");
        }
        Gate::Inconclusive => assert!(!has_risen, "{cell:?}"),
        Gate::Regressed => assert!(has_risen, "{cell:?}"),
    }
}

#[test]
fn no_word_contradicts_an_interval_in_any_cell() {
    let mut random = Random::new(17);
    let mut outcomes = std::collections::HashSet::new();
    let mut gates = std::collections::HashSet::new();
    for cell in cells() {
        for _ in 0..3 {
            let diff = cell.compare(&mut random);
            check_words(cell, &diff);
            outcomes.insert(diff.outcome);
            gates.insert(diff.gate());
        }
    }
    for outcome in [
        Outcome::Regressed,
        Outcome::Improved,
        Outcome::Uniform,
        Outcome::BelowThreshold,
        Outcome::Unchanged,
        Outcome::Inconclusive,
    ] {
        assert!(outcomes.contains(&outcome), "{outcome:?}: {outcomes:?}");
    }
    assert_eq!(gates.len(), 3, "{gates:?}");
}

#[test]
fn no_word_contradicts_the_truth_more_often_than_promised() {
    // 5 % of 300 plus three standard deviations are 26.
    for (rise, limit) in [
        (0.048, 0.05),
        (0.0, 0.01),
        (-0.048, 0.05),
        (0.052, 0.05),
        (0.021, 0.02),
    ] {
        for spread in [0.004, 0.03] {
            let mut random = Random::new(4);
            let cell = Cell {
                rise,
                spread,
                limit,
                alone: false,
            };
            let wrong = (0..300).filter(|_| {
                let gate = cell.compare(&mut random).gate();
                match rise > limit {
                    true => gate == Gate::Passed,
                    false => gate == Gate::Regressed,
                }
            });
            let wrong = wrong.count();
            println!("{cell:?}: {wrong} of 300 wrong");
            assert!(wrong <= 26, "{cell:?}: {wrong}");
        }
    }
}

#[test]
fn runs_that_do_not_tell_are_never_unchanged() {
    // One run per side: no threshold gives certainty.
    for (amount, limit) in [(1000, 0.5), (1100, 0.5), (1000, 5.0), (900, 0.5)] {
        let [old, new] = [1000, amount].map(|n| [of(&[("main;a", 10 * n), ("main;b", 5000)])]);
        let options = CompareOptions {
            threshold: limit,
            ..CompareOptions::default()
        };
        let diff = compare(&old, &new, &options).unwrap();
        let expected = match amount == 1000 {
            true => (Outcome::Same, Gate::Passed),
            false => (Outcome::Inconclusive, Gate::Inconclusive),
        };
        assert_eq!((diff.outcome, diff.gate()), expected);
    }
}

#[test]
fn a_fall_passes_and_a_small_share_does_not_hide_the_programs_rise() {
    let side = |factor: f64| {
        [0.999, 1.0, 1.001, 0.9985, 1.0015].map(|noise| {
            let amount = |n: f64| (n * noise * factor) as u64;
            of(&[("main;a", amount(600_000.0)), ("main;b", amount(400_000.0))])
        })
    };
    let with = |factor, threshold| {
        let options = CompareOptions {
            threshold,
            min_share: 0.05,
            design: Design::Paired,
            ..CompareOptions::default()
        };
        compare(&side(1.0), &side(factor), &options).unwrap()
    };
    for fall in [0.9, 0.953, 0.97] {
        assert_eq!(with(fall, 0.05).gate(), Gate::Passed, "{fall}");
    }
    // 2 % is below the minimum share of a function, but above the threshold.
    let diff = with(1.02, 0.005);
    assert_eq!(
        (diff.whole.verdict, diff.gate()),
        (Verdict::Regressed, Gate::Regressed)
    );
    assert_eq!(row(&diff, "a").own.verdict, Verdict::BelowShare);
}
