//! Joint judgement of self and total of all functions, and a separate test of the whole program.

use std::collections::hash_map::Entry;

use rprof_statistics::{CONFIDENCE, ChangeVerdict as Tested, Comparison, Design, Measured, Prior};
use rustc_hash::FxHashMap;

use super::sides::Quantity;
use super::{Change, CompareError, CompareOptions, MIN_SAMPLES, MORE_SAMPLES, Verdict, Work};

/// Significance level for the whole program.
const WHOLE_LEVEL: f64 = 0.01;

/// Minimum degrees of freedom for a test of the whole program without prior.
const ENOUGH: usize = 3;

/// A permutation test is useful up to this multiple of `q`. Five pairs have sixteen permutations.
const NEARLY: f64 = 2.0;

/// Relative rounding tolerance of permutation p-values.
const SAME: f64 = 1e-9;

/// Power of a visible change.
const POWER: f64 = 0.8;
pub(super) fn measured(quantity: &Quantity, resolution: f64) -> Measured<'_> {
    Measured {
        base: &quantity.amounts[0],
        new: &quantity.amounts[1],
        resolution,
        sampling_variance: 1.0 / quantity.mean_samples().max(0.5),
    }
}

pub(super) fn is_judged(quantity: &Quantity) -> bool {
    quantity
        .samples
        .iter()
        .any(|samples| *samples >= MIN_SAMPLES)
}

/// Bits of amounts and samples. Equal keys share a test.
type Key = ([Vec<u64>; 2], [u64; 2]);

fn key(quantity: &Quantity) -> Key {
    let amounts = [0, 1].map(|side| quantity.amounts[side].iter().map(|n| n.to_bits()).collect());
    (amounts, quantity.samples.map(f64::to_bits))
}

pub(super) type Indexed = (usize, Comparison);

pub(super) struct Family<'o> {
    pub(super) prior: Prior,
    pub(super) options: &'o CompareOptions,
    pub(super) resolution: f64,
    /// Smallest relevant amount of change.
    pub(super) least: f64,
    /// False if findings are only suspicions.
    pub(super) is_certain: bool,
}

impl Family<'_> {
    /// Judges self and total of all functions. Returns the comparisons of self with their indexes.
    ///
    /// All amounts form one family: two would double the false alarms. Equal amounts, such as for
    /// callers without self weight, share a test.
    pub(super) fn judge(
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
        // A single change must pass the strictest step.
        let level = correction.level_alone(q, comparisons.len());
        let mut changes = parts.map(|part| part.iter().map(unjudged).collect::<Vec<Change>>());
        for part in [0, 1] {
            for (index, test) in &tests[part] {
                let change = &mut changes[part][*index];
                let quantity = &parts[part][*index];
                self.fill(change, &comparisons[*test], level, quantity);
                if let Some(cautious) = self.compare_few(quantity)? {
                    change.visible = cautious.smallest_visible(level, POWER);
                }
                let counts = change.difference().abs() >= self.least;
                change.verdict = self.verdict(tested[*test], counts);
            }
        }
        let own = tests[0].iter();
        let own = own.map(|(index, test)| (*index, comparisons[*test]));
        Ok((changes, own.collect()))
    }

    /// Withdraws findings that a permutation test does not confirm, or that few runs agree on by
    /// accident.
    fn drop_what_chance_deals(
        &self,
        quantities: &[&Quantity],
        tested: &mut [Tested],
    ) -> Result<(), CompareError> {
        let is_found = |tested: &Tested| matches!(tested, Tested::More | Tested::Less);
        if self.options.noise.is_some() || !tested.iter().any(is_found) {
            return Ok(());
        }
        let measured: Vec<Measured<'_>> = (quantities.iter())
            .map(|quantity| measured(quantity, self.resolution))
            .collect();
        let (design, threshold) = (self.options.design, self.options.threshold);
        let Some(shares) = rprof_statistics::adjusted_by_dealing(
            &measured, design, self.prior, threshold, self.least,
        )?
        else {
            return Ok(());
        };
        // No permutation of few runs is rare enough: require the rarest.
        let rarest = 1.0 / rprof_statistics::ways_to_deal(runs_of(quantities[0]), design);
        let most = self.q().max(rarest * (1.0 + SAME));
        let level = (self.options.correction).level_alone(self.q(), tested.len());
        for ((tested, quantity), share) in tested.iter_mut().zip(quantities).zip(shares) {
            let difference = quantity.mean(1) - quantity.mean(0);
            if !is_found(tested) || difference.abs() < self.least {
                continue;
            }
            let is_chance = |few: Comparison| few.p() > level;
            if share > most || self.compare_few(quantity)?.is_some_and(is_chance) {
                *tested = Tested::MayExceed;
            }
        }
        Ok(())
    }

    fn q(&self) -> f64 {
        (self.options.q - WHOLE_LEVEL).max(self.options.q / 2.0)
    }

    pub(super) fn of_whole(&self, whole: &Quantity) -> Result<Change, CompareError> {
        let mut change = unjudged(whole);
        if self.options.work == Work::Share {
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
            // Samples come at a fixed rate of CPU time, so the whole program has no sampling noise.
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
        change.verdict = self.verdict(tested, true);
        Ok(change)
    }

    fn fill(&self, change: &mut Change, comparison: &Comparison, level: f64, of: &Quantity) {
        let sampling_variance = measured(of, self.resolution).sampling_variance;
        let has_both = change.old > 0.0 && change.new > 0.0;
        change.interval = has_both.then(|| comparison.confidence_interval(CONFIDENCE));
        change.p = Some(comparison.p());
        change.visible = comparison.smallest_visible(level, POWER);
        let runs = [0, 1].map(|side| of.amounts[side].len());
        let wanted = self.options.wanted_rise();
        change.runs_needed = comparison.runs_needed(runs, wanted, level, POWER);
        let [a, b] = runs.map(|runs| runs.max(1) as f64);
        let sampling = sampling_variance * (1.0 / a + 1.0 / b);
        let variance = comparison.standard_error.powi(2);
        let denser = Comparison {
            standard_error: (variance - sampling.min(variance) * (1.0 - 1.0 / MORE_SAMPLES)).sqrt(),
            ..*comparison
        };
        change.runs_needed_denser = denser.runs_needed(runs, wanted, level, POWER);
    }

    fn compare(&self, quantity: &Quantity, prior: Prior) -> Result<Comparison, CompareError> {
        let measured = measured(quantity, self.resolution);
        let (design, threshold) = (self.options.design, self.options.threshold);
        Ok(rprof_statistics::compare(
            &measured, design, prior, threshold,
        )?)
    }

    /// Compares cautiously if runs are too few for a permutation test.
    fn compare_few(&self, quantity: &Quantity) -> Result<Option<Comparison>, CompareError> {
        let (design, threshold) = (self.options.design, self.options.threshold);
        let ways = rprof_statistics::ways_to_deal(runs_of(quantity), design);
        if self.options.noise.is_some() || ways < 2.0 || ways * self.q() * NEARLY >= 1.0 {
            return Ok(None);
        }
        let measured = measured(quantity, self.resolution);
        let cautious =
            rprof_statistics::compare_cautiously(&measured, design, self.prior, threshold)?;
        Ok(Some(cautious))
    }

    fn verdict(&self, tested: Tested, counts: bool) -> Verdict {
        match tested {
            Tested::More | Tested::Less if !counts => Verdict::BelowShare,
            Tested::More | Tested::Less if !self.is_certain => Verdict::Suspected,
            Tested::More => Verdict::Regressed,
            Tested::Less => Verdict::Improved,
            Tested::Unchanged => Verdict::Unchanged,
            Tested::BelowThreshold => Verdict::BelowThreshold,
            Tested::MayExceed => Verdict::MayExceed,
            Tested::Inconclusive => Verdict::Inconclusive,
        }
    }
}

fn runs_of(quantity: &Quantity) -> [usize; 2] {
    [0, 1].map(|side| quantity.amounts[side].len())
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
        runs_needed_denser: None,
        verdict: Verdict::TooSmall,
    }
}
