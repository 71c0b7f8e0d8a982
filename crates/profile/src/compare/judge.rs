//! Verdicts of the program and of each function.

use std::collections::hash_map::Entry;

use rprof_statistics::{Comparison, Design, Measured, Prior, Verdict as Tested};

use rustc_hash::FxHashMap;

use super::sides::{Quantity, Sides};
use super::{
    ASSUMED_NOISE, Caution, Change, CompareError, CompareOptions, FEWEST_OF_A_SIDE, FEWEST_SAMPLES,
    FunctionDiff, Noise, Outcome, Presence, ProfileDiff, Side, SideSummary, Verdict, Work, causes,
    shift,
};
use crate::unit::WeightUnit;

/// Level of the test of the whole program, which is alone.
const WHOLE_LEVEL: f64 = 0.01;

/// Degrees of freedom from which on the runs of the whole program speak for themselves.
const ENOUGH: usize = 3;

/// Runs that noise given by the user is believed to be from.
const GIVEN_RUNS: usize = 20;

/// Chance of seeing what is called visible.
const POWER: f64 = 0.8;

/// Compares all amounts.
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
        noise,
        threshold: options.threshold,
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

/// Returns what is known of the noise between runs.
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

fn measured(quantity: &Quantity, resolution: f64) -> Measured<'_> {
    Measured {
        base: &quantity.amounts[0],
        new: &quantity.amounts[1],
        resolution,
        sampling_variance: 1.0 / quantity.mean_samples().max(0.5),
    }
}

fn is_judged(quantity: &Quantity) -> bool {
    quantity
        .samples
        .iter()
        .any(|samples| *samples >= FEWEST_SAMPLES)
}

/// Bits of the amounts of both sides, and of their samples: equal for amounts of which one says nothing that the other does not.
type Key = ([Vec<u64>; 2], [u64; 2]);

fn key(quantity: &Quantity) -> Key {
    let amounts = [0, 1].map(|side| quantity.amounts[side].iter().map(|n| n.to_bits()).collect());
    (amounts, quantity.samples.map(f64::to_bits))
}

/// The comparison of a function's amounts, with the function's index.
type Indexed = (usize, Comparison);

/// Options and prior of amounts that are judged together.
struct Family<'o> {
    prior: Prior,
    options: &'o CompareOptions,
    resolution: f64,
    /// Smallest difference that counts.
    least: f64,
    is_certain: bool,
}

impl Family<'_> {
    /// Judges the amounts of all functions, self and total, and returns the comparisons of self with their indices.
    ///
    /// All are one family: to hold the rate in each of two would allow for twice as many false alarms. Equal amounts, such as
    /// those of callers that do nothing by themselves, are one test.
    fn judge(
        &self,
        parts: [&[Quantity]; 2],
    ) -> Result<([Vec<Change>; 2], Vec<Indexed>), CompareError> {
        let mut distinct: FxHashMap<Key, usize> = FxHashMap::default();
        let mut comparisons: Vec<Comparison> = Vec::new();
        let mut quantities_of_tests: Vec<&Quantity> = Vec::new();
        let mut tests: [Vec<(usize, usize)>; 2] = Default::default();
        for (tests, quantities) in tests.iter_mut().zip(parts) {
            for (index, quantity) in quantities.iter().enumerate() {
                if !is_judged(quantity) {
                    continue;
                }
                let test = match distinct.entry(key(quantity)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        comparisons.push(self.compare(quantity, self.prior)?);
                        quantities_of_tests.push(quantity);
                        *new.insert(comparisons.len() - 1)
                    }
                };
                tests.push((index, test));
            }
        }
        let q = self.q();
        let correction = self.options.correction;
        let mut tested = rprof_statistics::judge_by(&comparisons, q, correction);
        self.drop_what_chance_deals(&quantities_of_tests, &mut tested)?;
        // A lone change must pass the strictest step of the adjustment.
        let level = correction.level_alone(q, comparisons.len());
        let mut changes = parts.map(|part| part.iter().map(unjudged).collect::<Vec<Change>>());
        for part in [0, 1] {
            for (index, test) in &tests[part] {
                let change = &mut changes[part][*index];
                let quantity = &parts[part][*index];
                self.fill(change, &comparisons[*test], level, quantity);
                change.verdict = self.verdict(tested[*test], change.difference());
            }
        }
        let own = tests[0].iter();
        let own = own.map(|(index, test)| (*index, comparisons[*test]));
        Ok((changes, own.collect()))
    }

    /// Takes back findings that do not stand out among the ways in which the runs could have been dealt into sides.
    fn drop_what_chance_deals(
        &self,
        quantities: &[&Quantity],
        tested: &mut [Tested],
    ) -> Result<(), CompareError> {
        let is_found = |tested: &Tested| matches!(tested, Tested::More | Tested::Less);
        // Noise that is stated is taken for what it is.
        if self.options.noise.is_some() || !tested.iter().any(is_found) {
            return Ok(());
        }
        let measured: Vec<Measured<'_>> = (quantities.iter())
            .map(|quantity| measured(quantity, self.resolution))
            .collect();
        let (design, threshold) = (self.options.design, self.options.threshold);
        let (least, q) = (self.least, self.q());
        let shares = rprof_statistics::adjusted_by_dealing(
            &measured, design, self.prior, threshold, least, q,
        )?;
        for (tested, share) in tested.iter_mut().zip(shares.into_iter().flatten()) {
            if is_found(tested) && share > q {
                *tested = Tested::Inconclusive;
            }
        }
        Ok(())
    }

    /// Returns the share of false findings among functions: what the test of the whole program leaves, so that all of them
    /// together raise a false alarm no oftener than was asked for.
    fn q(&self) -> f64 {
        (self.options.q - WHOLE_LEVEL).max(self.options.q / 2.0)
    }

    /// Judges the amount of the whole program.
    fn of_whole(&self, whole: &Quantity) -> Result<Change, CompareError> {
        let mut change = unjudged(whole);
        if self.options.work == Work::Share {
            // It is 1 on either side.
            change.verdict = Verdict::Unchanged;
            return Ok(change);
        }
        let runs = whole.amounts[0].len() + whole.amounts[1].len();
        let degrees = match self.options.design {
            Design::Independent => runs - 2,
            Design::Paired => (runs / 2).saturating_sub(1),
        };
        let speaks_for_itself = degrees >= ENOUGH && self.options.noise.is_none();
        let prior = match speaks_for_itself {
            true => Prior::NONE,
            false => self.prior,
        };
        let comparison = match speaks_for_itself {
            // Samples come at a fixed rate of CPU time: how many a program gets is no chance, as it is for one of its functions.
            // How much runs differ is all that there is.
            true => rprof_statistics::compare(
                &Measured {
                    sampling_variance: 0.0,
                    ..measured(whole, self.resolution)
                },
                self.options.design,
                prior,
                self.options.threshold,
            )?,
            false => self.compare(whole, prior)?,
        };
        let level = WHOLE_LEVEL.min(self.options.q / 2.0);
        let tested = rprof_statistics::judge(&[comparison], level);
        self.fill(&mut change, &comparison, level, whole);
        let tested = tested.first().copied().unwrap_or(Tested::Inconclusive);
        change.verdict = self.verdict(tested, change.difference());
        Ok(change)
    }

    fn fill(&self, change: &mut Change, comparison: &Comparison, level: f64, of: &Quantity) {
        let has_both = change.old > 0.0 && change.new > 0.0;
        change.interval = has_both.then(|| comparison.confidence_interval(0.95));
        change.p = Some(comparison.p());
        change.visible = comparison.smallest_visible(level, POWER);
        let runs = [0, 1].map(|side| of.amounts[side].len());
        let wanted = self.options.wanted_rise();
        change.runs_needed = comparison.runs_needed(runs, wanted, level, POWER);
    }

    fn compare(&self, quantity: &Quantity, prior: Prior) -> Result<Comparison, CompareError> {
        let measured = measured(quantity, self.resolution);
        let (design, threshold) = (self.options.design, self.options.threshold);
        Ok(rprof_statistics::compare(
            &measured, design, prior, threshold,
        )?)
    }

    fn verdict(&self, tested: Tested, difference: f64) -> Verdict {
        let counts = difference.abs() >= self.least;
        match tested {
            Tested::More | Tested::Less if !counts => Verdict::BelowThreshold,
            Tested::More | Tested::Less if !self.is_certain => Verdict::Suspected,
            Tested::More => Verdict::Regressed,
            Tested::Less => Verdict::Improved,
            Tested::Unchanged => Verdict::Unchanged,
            Tested::BelowThreshold => Verdict::BelowThreshold,
            Tested::Inconclusive => Verdict::Inconclusive,
        }
    }
}

fn unjudged(quantity: &Quantity) -> Change {
    Change {
        old: quantity.mean(0),
        new: quantity.mean(1),
        samples: quantity.samples,
        interval: None,
        p: None,
        visible: None,
        runs_needed: None,
        verdict: Verdict::TooSmall,
    }
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
        if samples < FEWEST_OF_A_SIDE {
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
        _ => match diff.whole.verdict {
            Verdict::Inconclusive | Verdict::TooSmall => Outcome::Inconclusive,
            _ => Outcome::Unchanged,
        },
    }
}
