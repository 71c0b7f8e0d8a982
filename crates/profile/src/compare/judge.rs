//! Verdicts of the program and of each function.

use rprof_statistics::{Measured, Prior};

use super::family::{Family, is_judged, measured};
use super::sides::{Quantity, Sides};
use super::{
    ASSUMED_NOISE, Caution, CompareError, CompareOptions, FunctionDiff, MIN_OF_A_SIDE, Noise,
    Outcome, Presence, ProfileDiff, Side, SideSummary, Verdict, Work, causes, shift,
};
use crate::unit::WeightUnit;

/// Assumed number of runs behind user-given noise.
const GIVEN_RUNS: usize = 20;

pub(super) fn judge(
    sides: &Sides<'_>,
    options: &CompareOptions,
) -> Result<ProfileDiff, CompareError> {
    let count = sides.rows.names.len();
    let own: Vec<Quantity> = (0..count).map(|row| sides.own(row)).collect();
    let total: Vec<Quantity> = (0..count).map(|row| sides.total(row)).collect();
    let whole = sides.whole();
    let cautions = cautions(sides, &whole, options);
    let (prior, noise) = prior(&own, &whole, sides.resolution, options)?;
    let is_certain =
        !matches!(noise, Noise::Assumed(_)) && !cautions.iter().any(Caution::withholds);
    let least = options.min_share * (whole.mean(0) + whole.mean(1)) / 2.0;
    let family = Family {
        prior,
        options,
        resolution: sides.resolution,
        least,
        is_certain,
    };
    let ([own_changes, total_changes], compared) = family.judge([&own, &total])?;
    let functions = (sides.rows.names.iter().zip(own_changes).zip(total_changes))
        .map(|((name, own), total)| FunctionDiff {
            name: name.function.clone(),
            object: name.object.clone(),
            presence: match (total.old > 0.0, total.new > 0.0) {
                (true, false) => Presence::OnlyOld,
                (false, true) => Presence::OnlyNew,
                _ => Presence::Both,
            },
            own,
            total,
            counterpart: None,
            explained_by: None,
        })
        .collect();
    let is_same = |quantity: &Quantity| quantity.amounts[0] == quantity.amounts[1];
    let is_all_same = own.iter().chain(&total).chain([&whole]).all(is_same);
    let mut diff = ProfileDiff {
        event: String::new(),
        unit: WeightUnit::default(),
        work: options.work,
        old: summary(sides, 0),
        new: summary(sides, 1),
        whole: family.of_whole(&whole)?,
        functions,
        renames: Vec::new(),
        stacks: Vec::new(),
        comms: Vec::new(),
        is_by_request: false,
        noise,
        whole_deviation: deviation(&whole, sides.resolution, options),
        threshold: options.threshold,
        min_share: options.min_share,
        wanted: options.wanted_rise(),
        rules: options.rules.clone(),
        design: options.design,
        cautions,
        outcome: Outcome::Same,
    };
    shift::mark_moved(sides, &mut diff);
    if !is_all_same {
        let is_uniform = shift::mark_uniform(&mut diff, &compared);
        diff.outcome = outcome(&diff, is_uniform);
        causes::attribute(sides, &mut diff);
    }
    Ok(diff)
}

/// Estimates the noise between runs. Prefers the user's value.
fn prior(
    own: &[Quantity],
    whole: &Quantity,
    resolution: f64,
    options: &CompareOptions,
) -> Result<(Prior, Noise), CompareError> {
    if let Some(noise) = options.noise {
        return Ok((Prior::calibrated(noise, GIVEN_RUNS), Noise::Given(noise)));
    }
    let mut family: Vec<_> = (own.iter().filter(|quantity| is_judged(quantity)))
        .map(|quantity| measured(quantity, resolution))
        .collect();
    if family.is_empty() {
        family.push(measured(whole, resolution));
    }
    Ok(match Prior::from_family(&family, options.design)? {
        Some(prior) => (prior, Noise::Learned(prior.run_to_run_variance.sqrt())),
        None => (Prior::ASSUMED, Noise::Assumed(ASSUMED_NOISE)),
    })
}

fn deviation(whole: &Quantity, resolution: f64, options: &CompareOptions) -> Option<f64> {
    if options.work == Work::Share {
        return None;
    }
    let measured = Measured {
        sampling_variance: 0.0,
        ..measured(whole, resolution)
    };
    let compared = rprof_statistics::compare(&measured, options.design, Prior::NONE, 0.0).ok()?;
    let [a, b] = [0, 1].map(|side| whole.amounts[side].len() as f64);
    Some(compared.standard_error / (1.0 / a + 1.0 / b).sqrt())
}

fn summary(sides: &Sides<'_>, side: usize) -> SideSummary {
    let runs = &sides.runs[side];
    let qualities = || runs.iter().map(|run| &run.profile.quality);
    let (complete, stacks) = qualities().fold((0, 0), |(complete, stacks), quality| {
        (
            complete + quality.stacks.complete,
            stacks + quality.stacks.total,
        )
    });
    let lost: u64 = qualities().map(|quality| quality.lost).sum();
    let samples: u64 = sides.sums[side].iter().map(|sums| sums.samples).sum();
    let recorded: u64 = qualities().map(|quality| quality.recorded).sum();
    let all = lost + recorded.max(samples);
    SideSummary {
        paths: runs.iter().map(|run| run.profile.source.clone()).collect(),
        weights: (sides.sums[side].iter())
            .map(|sums| sums.whole.weight)
            .collect(),
        samples,
        matched: sides.matched_share(side),
        complete: (stacks > 0).then(|| complete as f64 / stacks as f64),
        lost: if all > 0 {
            lost as f64 / all as f64
        } else {
            0.0
        },
        damaged: qualities().filter(|quality| quality.damaged).count(),
    }
}

fn cautions(sides: &Sides<'_>, whole: &Quantity, options: &CompareOptions) -> Vec<Caution> {
    let [old, new] = [0, 1].map(|side| summary(sides, side));
    let mut cautions = Vec::new();
    let both = [(Side::Old, &old), (Side::New, &new)];
    for ((side, summary), samples) in both.into_iter().zip(whole.samples) {
        if samples < MIN_OF_A_SIDE {
            cautions.push(Caution::FewSamples(side, samples));
        }
        if summary.lost > 0.01 {
            cautions.push(Caution::Lost(side, summary.lost));
        }
        if summary.damaged > 0 {
            cautions.push(Caution::Damaged(side, summary.damaged));
        }
    }
    if let (Some(old), Some(new)) = (old.complete, new.complete)
        && (old - new).abs() > 0.05
    {
        cautions.push(Caution::Completeness { old, new });
    }
    let share = old.matched.min(new.matched);
    if share < 0.95 {
        cautions.push(Caution::Unmatched { share });
    }
    cautions.extend(sides.without_inlined.map(Caution::WithoutInlined));
    let reservations = options.reservations.iter().cloned();
    cautions.extend(reservations.map(Caution::Reservation));
    cautions
}

fn outcome(diff: &ProfileDiff, is_uniform: bool) -> Outcome {
    let has =
        |verdict| diff.whole.verdict == verdict || diff.with_verdict(verdict).next().is_some();
    match (has(Verdict::Regressed), has(Verdict::Improved)) {
        _ if is_uniform => Outcome::Uniform,
        (true, true) => Outcome::Mixed,
        (true, false) => Outcome::Regressed,
        (false, true) => Outcome::Improved,
        _ if has(Verdict::Suspected) => Outcome::Suspected,
        _ if has(Verdict::Moved) => Outcome::Moved,
        // Assumed noise and incomparable sides cannot prove "unchanged".
        _ if !diff.is_certain() => Outcome::Inconclusive,
        // The share is always 1: only functions can be inconclusive.
        _ if diff.work == Work::Share
            && (has(Verdict::Inconclusive) || has(Verdict::MayExceed)) =>
        {
            Outcome::Inconclusive
        }
        _ if diff.undecided().next().is_some() => Outcome::Inconclusive,
        _ => match diff.whole.verdict {
            Verdict::Inconclusive | Verdict::MayExceed | Verdict::TooSmall => Outcome::Inconclusive,
            Verdict::BelowThreshold => Outcome::BelowThreshold,
            _ => Outcome::Unchanged,
        },
    }
}
