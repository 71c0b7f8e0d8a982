use super::*;
use crate::verdict::{CONFIDENCE, ChangeVerdict, judge};
use rprof_testing::Random;

const OLD: [f64; 5] = [9.84, 9.79, 9.91, 9.88, 9.80];
const NEW: [f64; 5] = [10.31, 10.22, 10.40, 10.35, 10.19];

fn near(found: f64, expected: f64) {
    let allowed = 1e-8 * expected.abs().max(1e-300);
    assert!((found - expected).abs() <= allowed, "{found} {expected}");
}

#[test]
fn values_are_those_of_scipy() {
    // scipy.stats.ttest_rel and ttest_ind(equal_var=True) of logarithms, scipy 1.17.1; with the
    // threshold, scipy.stats.t.sf of the shifted difference.
    let measured = Measured::exact(&OLD, &NEW);
    let pairs = compare(&measured, Design::Paired, Prior::NONE, 0.0).unwrap();
    near(pairs.log_ratio, 0.04468072850259706);
    near(pairs.standard_error, 0.0016555635541961177);
    near(pairs.p(), 1.1206991812604487e-05);
    near(pairs.confidence_interval(0.95).low, 1.040898359164963);
    let apart = compare(&measured, Design::Independent, Prior::NONE, 0.0).unwrap();
    near(apart.p(), 8.57974755842853e-06);
    let by_four = compare(&measured, Design::Paired, Prior::NONE, 0.04).unwrap();
    near(by_four.p(), 0.014995076193948517);
    let prior = Prior {
        run_to_run_variance: 1e-4,
        degrees_of_freedom: 6.0,
        common_variance: 0.0,
    };
    let moderated = compare(&measured, Design::Paired, prior, 0.0).unwrap();
    near(moderated.p(), 4.4882552461412245e-06);
}

#[test]
fn a_prior_is_worth_its_degrees_of_freedom() {
    // One run per side: only the prior estimates the noise.
    let measured = Measured::exact(&[1.0], &[1.2]);
    let few = compare(&measured, Design::Independent, Prior::NONE, 0.0);
    assert_eq!(few, Err(MeasurementError::TooFewRuns { runs: 1 }));
    let found = compare(&measured, Design::Independent, Prior::ASSUMED, 0.0).unwrap();
    near(found.standard_error, 0.05 * 2.0_f64.sqrt());
    assert_eq!(found.degrees_of_freedom, 8.0);
    let calm = Prior::calibrated(0.01, 6);
    let surer = compare(&measured, Design::Independent, calm, 0.0).unwrap();
    assert!(surer.p() < found.p());
}

#[test]
fn swapped_sides_are_mirrored_exactly() {
    for design in [Design::Paired, Design::Independent] {
        let there = compare(&Measured::exact(&OLD, &NEW), design, Prior::NONE, 0.02).unwrap();
        let back = compare(&Measured::exact(&NEW, &OLD), design, Prior::NONE, 0.02).unwrap();
        assert_eq!(there.log_ratio, -back.log_ratio);
        assert_eq!((there.p_more, there.p_less), (back.p_less, back.p_more));
    }
}

#[test]
fn equal_counts_are_no_change_and_other_counts_are_one() {
    let of = |old: &[f64], new: &[f64]| {
        compare(
            &Measured::in_steps(old, new, 1.0),
            Design::Paired,
            Prior::NONE,
            0.0,
        )
        .unwrap()
    };
    let same = of(&[7.0; 3], &[7.0; 3]);
    assert_eq!((same.log_ratio, same.p()), (0.0, 1.0));
    // Any difference is real.
    assert!(of(&[2.41e9; 3], &[2.29e9; 3]).p() < 1e-9);
    // Three times 0 against three times 1 is weak evidence.
    assert!(of(&[0.0; 3], &[1.0; 3]).p() > 0.01);
}

#[test]
fn what_has_no_logarithm_is_an_error() {
    let error = |old: &[f64], new: &[f64]| {
        compare(
            &Measured::exact(old, new),
            Design::Independent,
            Prior::NONE,
            0.0,
        )
        .unwrap_err()
    };
    assert_eq!(
        error(&[1.0, 0.0], &[1.0, 1.0]),
        MeasurementError::NotPositive { value: 0.0 }
    );
    assert_eq!(
        error(&[1.0, 1.0], &[-1.0, 1.0]),
        MeasurementError::NotPositive { value: -1.0 }
    );
    assert!(matches!(
        error(&[f64::NAN, 1.0], &[1.0, 1.0]),
        MeasurementError::NotFinite { .. }
    ));
    assert_eq!(error(&[], &[1.0]), MeasurementError::TooFewRuns { runs: 0 });
}

#[test]
fn verdicts_name_what_is_sure() {
    let at = |threshold| {
        let measured = Measured::exact(&OLD, &NEW);
        let found = compare(&measured, Design::Paired, Prior::NONE, threshold).unwrap();
        judge(&[found], 0.05)[0]
    };
    assert_eq!(
        (at(0.0), at(0.02)),
        (ChangeVerdict::More, ChangeVerdict::More)
    );
    assert_eq!(at(0.0465), ChangeVerdict::MayExceed);
    assert_eq!(at(0.06), ChangeVerdict::BelowThreshold);
    assert_eq!(at(0.10), ChangeVerdict::BelowThreshold);
    let wild = Measured::exact(&[1.0, 2.0, 1.0], &[2.0, 1.0, 1.0]);
    let wild = compare(&wild, Design::Independent, Prior::NONE, 0.05).unwrap();
    assert_eq!(judge(&[wild], 0.05), [ChangeVerdict::Inconclusive]);
    let visible = wild.smallest_visible(0.05, 0.8).unwrap();
    assert!(visible > 0.5, "{visible}");
}

#[test]
fn verdicts_agree_with_the_interval_that_is_shown() {
    const Z: [f64; 8] = [-1.42, -0.85, -0.47, -0.15, 0.15, 0.47, 0.85, 1.42];
    let mut seen = std::collections::HashSet::new();
    for (spread, rise, threshold) in grid() {
        let run = |at: usize, factor: f64| factor * (1.0 + spread * Z[at % 8]);
        let old: Vec<f64> = (0..8).map(|n| run(3 * n, 1.0)).collect();
        let new: Vec<f64> = (0..8).map(|n| run(5 * n + 2, 1.0 + rise)).collect();
        let measured = Measured::exact(&old, &new);
        let found = compare(&measured, Design::Independent, Prior::NONE, threshold).unwrap();
        let verdict = judge(&[found], 0.05)[0];
        seen.insert(verdict);
        let interval = found.confidence_interval(CONFIDENCE);
        let inside = 1.0 / (1.0 + threshold) < interval.low && interval.high < 1.0 + threshold;
        let expected = match (inside, interval.contains(1.0)) {
            (true, true) => ChangeVerdict::Unchanged,
            (true, false) => ChangeVerdict::BelowThreshold,
            (false, true) => ChangeVerdict::Inconclusive,
            (false, false) if interval.low >= 1.0 + threshold => ChangeVerdict::More,
            (false, false) if interval.high <= 1.0 / (1.0 + threshold) => ChangeVerdict::Less,
            (false, false) => ChangeVerdict::MayExceed,
        };
        assert_eq!(
            verdict, expected,
            "{rise} ± {spread}, limit {threshold}: {interval:?}"
        );
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

fn grid() -> impl Iterator<Item = (f64, f64, f64)> {
    let spreads = [0.0005, 0.002, 0.004, 0.01, 0.02, 0.05, 0.1, 0.3];
    let rises = [
        -0.5, -0.2, -0.1, -0.055, -0.05, -0.048, -0.03, -0.01, -0.001, 0.0, 0.001, 0.01, 0.03,
        0.045, 0.048, 0.05, 0.052, 0.07, 0.1, 0.2, 1.0,
    ];
    let thresholds = [0.001, 0.01, 0.05, 0.1, 0.5];
    spreads.into_iter().flat_map(move |spread| {
        (rises.into_iter())
            .flat_map(move |rise| thresholds.map(|threshold| (spread, rise, threshold)))
    })
}

#[test]
fn of_many_a_difference_that_one_alone_would_show_is_not_sure() {
    let measured = Measured::exact(&OLD, &NEW);
    let shown = compare(&measured, Design::Independent, Prior::NONE, 0.05).unwrap();
    let p = shown.p_of_any_change();
    let equal = compare(
        &Measured::exact(&OLD, &OLD),
        Design::Independent,
        Prior::NONE,
        0.05,
    );
    let mut family = vec![equal.unwrap(); (0.1 / p) as usize];
    family.push(shown);
    assert_eq!(judge(&[shown], 0.05), [ChangeVerdict::MayExceed]);
    assert_eq!(
        judge(&family, 0.05).last(),
        Some(&ChangeVerdict::Inconclusive)
    );
}

/// Draws a standard normal deviate (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let mut uniform = || (random.next_u31() as f64 + 1.0) / (f64::from(1_u32 << 31) + 1.0);
    let (a, b) = (uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Returns runs of twelve quantities on two sides, with noise of 2 % or so and a common part shared
/// by pairs.
fn simulated(random: &mut Random, runs: usize, factor: f64) -> Vec<(Vec<f64>, Vec<f64>)> {
    let pairs: Vec<f64> = (0..runs).map(|_| 0.03 * normal(random)).collect();
    (0..12)
        .map(|index| {
            let deviation = 0.02 * (0.3 * normal(random)).exp();
            let mut side = |factor: f64| -> Vec<f64> {
                let values = pairs
                    .iter()
                    .map(|pair| factor * 1000.0 * (pair + deviation * normal(random)).exp());
                values.collect()
            };
            let base = side(1.0);
            (base, side(if index == 0 { factor } else { 1.0 }))
        })
        .collect()
}

fn verdicts(random: &mut Random, runs: usize, factor: f64, moderated: bool) -> Vec<ChangeVerdict> {
    let data = simulated(random, runs, factor);
    let family: Vec<Measured<'_>> = data
        .iter()
        .map(|(base, new)| Measured::exact(base, new))
        .collect();
    let prior = match moderated {
        true => Prior::from_family(&family, Design::Paired)
            .unwrap()
            .unwrap(),
        false => Prior::NONE,
    };
    let compared: Vec<Comparison> = (family.iter())
        .map(|measured| compare(measured, Design::Paired, prior, 0.0).unwrap())
        .collect();
    judge(&compared, 0.05)
}

#[test]
fn equal_programs_are_called_different_at_most_as_often_as_promised() {
    // 400 seeded comparisons of twelve quantities: 5 % and three standard deviations are 33.
    for (seed, runs, moderated) in [(1, 5, false), (2, 5, true), (3, 20, false), (4, 3, true)] {
        let mut random = Random::new(seed);
        let alarms = (0..400).filter(|_| {
            let found = verdicts(&mut random, runs, 1.0, moderated);
            found
                .iter()
                .any(|verdict| *verdict != ChangeVerdict::Inconclusive)
        });
        let alarms = alarms.count();
        assert!(
            alarms <= 33,
            "{alarms} of 400 with {runs} runs, moderated: {moderated}"
        );
    }
}

#[test]
fn a_change_of_a_tenth_is_found_and_it_alone() {
    let mut random = Random::new(5);
    let (mut found, mut others) = (0, 0);
    for _ in 0..100 {
        let verdicts = verdicts(&mut random, 5, 1.10, true);
        found += usize::from(verdicts[0] == ChangeVerdict::More);
        others += verdicts[1..]
            .iter()
            .filter(|verdict| **verdict != ChangeVerdict::Inconclusive)
            .count();
    }
    assert!(found >= 90, "{found} of 100");
    assert!(others <= 20, "{others} of 1,100 are false");
}

#[test]
fn the_family_says_how_noisy_runs_are() {
    let mut random = Random::new(6);
    let data = simulated(&mut random, 40, 1.0);
    let family: Vec<Measured<'_>> = data
        .iter()
        .map(|(base, new)| Measured::exact(base, new))
        .collect();
    let prior = Prior::from_family(&family, Design::Paired)
        .unwrap()
        .unwrap();
    let deviation = prior.run_to_run_variance.sqrt();
    assert!((0.015..0.028).contains(&deviation), "{deviation}");
    assert!((1.0..=100.0).contains(&prior.degrees_of_freedom));
    // Without replicates there is no estimate.
    let single = [Measured::exact(&[1.0], &[2.0])];
    assert_eq!(Prior::from_family(&single, Design::Independent), Ok(None));
}

#[test]
fn noise_in_common_is_worth_the_runs_that_it_was_seen_in() {
    // Two equal parts, one seen 4 times and the other 44 times.
    near(
        degrees_of_freedom(2.0, 1.0, 4.0, 44.0),
        4.0 / (1.0 / 4.0 + 1.0 / 44.0),
    );
    assert_eq!(degrees_of_freedom(2.0, 2.0, 4.0, 44.0), 4.0);
    assert_eq!(degrees_of_freedom(2.0, 0.0, 4.0, 44.0), 44.0);
    let runs = [[1.0, 1.1, 0.9, 1.05, 0.95], [1.0, 0.95, 1.1, 1.02, 0.9]];
    let sides: Vec<[Vec<f64>; 2]> = (0..20)
        .map(|index: u32| {
            let times = |side: [f64; 5]| side.map(|y| y * (1.0 + f64::from(index))).to_vec();
            runs.map(times)
        })
        .collect();
    let together: Vec<_> = (sides.iter())
        .map(|[base, new]| Measured::exact(base, new))
        .collect();
    let prior = Prior::from_family(&together, Design::Independent)
        .unwrap()
        .unwrap();
    assert!(
        prior.common_variance > 0.9 * prior.run_to_run_variance,
        "{prior:?}"
    );
    let rotated: Vec<[Vec<f64>; 2]> = (0..20)
        .map(|index| {
            [0, 1].map(|side| {
                let mut side: [f64; 5] = runs[side];
                side.rotate_left(index % 5);
                side.to_vec()
            })
        })
        .collect();
    let apart: Vec<_> = (rotated.iter())
        .map(|[base, new]| Measured::exact(base, new))
        .collect();
    let prior = Prior::from_family(&apart, Design::Independent)
        .unwrap()
        .unwrap();
    assert!(
        prior.common_variance < 0.01 * prior.run_to_run_variance,
        "{prior:?}"
    );
}

#[test]
fn the_runs_that_a_rise_needs_show_it() {
    let found = compare(
        &Measured::exact(&OLD, &NEW),
        Design::Independent,
        Prior::NONE,
        0.0,
    )
    .unwrap();
    let needed = |rise| found.runs_needed([5, 5], rise, 0.01, 0.8);
    let visible = found.smallest_visible(0.01, 0.8).unwrap();
    assert_eq!(needed(visible * 1.0001), Some(5));
    assert!(needed(visible / 2.0).unwrap() > 10);
    assert!(needed(0.5).unwrap() < 5);
    assert_eq!(
        [needed(0.0), needed(-0.1), needed(1e-9)],
        [None, None, None]
    );
    let above = compare(
        &Measured::exact(&OLD, &NEW),
        Design::Independent,
        Prior::NONE,
        0.05,
    )
    .unwrap();
    assert_eq!(above.runs_needed([5, 5], 0.05, 0.01, 0.8), None);
}
