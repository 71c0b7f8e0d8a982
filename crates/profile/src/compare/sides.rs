//! Amounts of each row in each run.

use super::matching::{Names, Rows};
use super::run::{Run, Sum, Sums};
use super::{CompareError, CompareOptions, Side, Work};
use crate::frame::FunctionId;
use crate::model::Profile;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) amounts: [Vec<f64>; 2],
    /// Effective samples in each side's mean run.
    pub(super) samples: [f64; 2],
}

impl Quantity {
    pub(super) fn mean(&self, side: usize) -> f64 {
        mean(&self.amounts[side])
    }

    pub(super) fn mean_samples(&self) -> f64 {
        let [old, new] = [0, 1].map(|side| self.samples[side] * self.amounts[side].len() as f64);
        (old + new) / (self.amounts[0].len() + self.amounts[1].len()) as f64
    }
}

pub(super) struct Sides<'p> {
    pub(super) runs: [Vec<Run<'p>>; 2],
    pub(super) sums: [Vec<Sums>; 2],
    pub(super) rows: Rows,
    /// Mean weight of a sample.
    pub(super) resolution: f64,
    /// Side without inlined calls, if only one lacks them. Both sides then ignore them.
    pub(super) without_inlined: Option<Side>,
}

/// Expected samples of a function. Chance then yields none once in 150 times.
const EXPECTED: f64 = 5.0;

/// Minimum number of inlined functions on one side. The other side may lose fewer by chance.
const SEVERAL_INLINED: usize = 3;

impl<'p> Sides<'p> {
    pub(super) fn of(
        profiles: [&[&'p Profile]; 2],
        options: &CompareOptions,
    ) -> Result<Sides<'p>, CompareError> {
        let inlined = profiles.map(|side| {
            (side.iter())
                .map(|run| inlined_functions(run))
                .max()
                .unwrap_or(0)
        });
        let without_inlined = match inlined {
            [0, other] if other >= SEVERAL_INLINED => Some(Side::Old),
            [other, 0] if other >= SEVERAL_INLINED => Some(Side::New),
            _ => None,
        };
        let mut names = Names::new(
            options.fold_generics,
            profiles.into_iter().flatten().copied(),
        );
        let mut runs = [Vec::new(), Vec::new()];
        for (side, runs) in runs.iter_mut().enumerate() {
            for profile in profiles[side].iter().copied() {
                let rows = names.add(profile);
                let drops_inlined = without_inlined.is_some();
                runs.push(Run::of(profile, options.weigh_by, rows, drops_inlined));
            }
        }
        let is_on = [0, 1].map(|side| {
            let mut is_on = vec![false; names.len()];
            for run in &runs[side] {
                // Before matching, rows are name numbers.
                let names = run.entries().flat_map(|entry| run.stack(entry));
                names.for_each(|name| is_on[name as usize] = true);
            }
            is_on
        });
        let rows = names.matched([&is_on[0], &is_on[1]]);
        for (side, runs) in runs.iter_mut().enumerate() {
            for run in runs {
                run.rows = rows.of_functions(&run.rows);
                run.work = work(run, side, options)?;
            }
        }
        let count = rows.names.len();
        let all: Vec<&Run<'_>> = runs.iter().flatten().collect();
        let threads = rprof_parallel::available();
        let mut sums =
            rprof_parallel::map_chunks(threads, &all, 1, |run| run[0].sums(count)).into_iter();
        let sums = [0, 1].map(|side| sums.by_ref().take(runs[side].len()).collect());
        let mut sides = Sides {
            runs,
            sums,
            rows,
            resolution: 0.0,
            without_inlined,
        };
        let whole = [0, 1].map(|side| sides.amounts(side, |sums| &sums.whole).iter().sum::<f64>());
        let samples = |side: usize| {
            sides.sums[side]
                .iter()
                .map(|s| s.samples as f64)
                .sum::<f64>()
        };
        sides.resolution = (whole[0] + whole[1]) / (samples(0) + samples(1));
        Ok(sides)
    }

    fn amounts(&self, side: usize, sum: impl Fn(&Sums) -> &Sum) -> Vec<f64> {
        (self.runs[side].iter().zip(&self.sums[side]))
            .map(|(run, sums)| sum(sums).weight as f64 / run.work)
            .collect()
    }

    fn quantity(&self, sum: impl Fn(&Sums) -> &Sum) -> Quantity {
        let samples = |side: usize| {
            let of_runs = self.sums[side]
                .iter()
                .map(|sums| sum(sums).effective_samples());
            mean(&of_runs.collect::<Vec<_>>())
        };
        Quantity {
            amounts: [self.amounts(0, &sum), self.amounts(1, &sum)],
            samples: [samples(0), samples(1)],
        }
    }

    pub(super) fn whole(&self) -> Quantity {
        self.quantity(|sums| &sums.whole)
    }

    pub(super) fn own(&self, row: usize) -> Quantity {
        self.quantity(|sums| &sums.own[row])
    }

    pub(super) fn total(&self, row: usize) -> Quantity {
        self.quantity(|sums| &sums.total[row])
    }

    /// Returns the share of a side's self weight in named functions of both sides.
    ///
    /// Ignores unmatched functions with fewer than [`EXPECTED`] expected samples on the other side.
    pub(super) fn matched_share(&self, side: usize) -> f64 {
        let ratio = self.sums[1 - side].len() as f64 / self.sums[side].len() as f64;
        let (mut matched, mut all) = (0.0, 0.0);
        for row in 0..self.rows.names.len() {
            let has = |side: usize| self.sums[side].iter().any(|s| s.total[row].weight > 0);
            let of_row = || self.sums[side].iter().map(|sums| &sums.own[row]);
            let weight: f64 = of_row().map(|sum| sum.weight as f64).sum();
            let is_named = self.rows.names[row].function.is_some();
            if is_named && has(0) && has(1) {
                matched += weight;
                all += weight;
                continue;
            }
            let expected: f64 = of_row().map(Sum::effective_samples).sum::<f64>() * ratio;
            if !is_named || expected >= EXPECTED {
                all += weight;
            }
        }
        if all > 0.0 { matched / all } else { 1.0 }
    }
}

fn inlined_functions(profile: &Profile) -> usize {
    if !profile.tells_inlined() {
        return 0;
    }
    let mut seen = vec![false; profile.functions.len()];
    for entry in &profile.aggregated {
        for id in profile.frames(entry.stack) {
            let frame = profile.frame(id);
            let FunctionId(function) = frame.function;
            seen[function as usize] |= frame.inline_depth > 0;
        }
    }
    seen.into_iter().filter(|is_inlined| *is_inlined).count()
}

fn work(run: &Run<'_>, side: usize, options: &CompareOptions) -> Result<f64, CompareError> {
    let work = match options.work {
        Work::Run => 1.0,
        Work::Units { old, new } => [old, new][side],
        Work::Seconds => match run.profile.time {
            Some((from, to)) => to.saturating_sub(from) as f64 / 1e9,
            None => 0.0,
        },
        Work::Share => run.entries().map(|entry| run.weight(entry) as f64).sum(),
    };
    match work > 0.0 && work.is_finite() {
        true => Ok(work),
        false => Err(CompareError::NoWork {
            path: run.profile.source.clone(),
        }),
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
