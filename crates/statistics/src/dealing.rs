//! [`adjusted_by_dealing`]: permutation test over all assignments ("deals") of runs to two sides.
//!
//! The t test assumes normal noise. Real runs often fall into kinds, caused by waiting threads or
//! busy neighbours. If nothing changed, all deals were equally likely. So a finding must stand out
//! among them, by the largest t of all quantities (Westfall and Young 1993, section 2.3, single
//! step).

use crate::error::MeasurementError;
use crate::measured::{Design, Measured, differences, from_mean, logarithms, rounding_variance};
use crate::prior::Prior;
use crate::random::{Dice, combinations};

/// Maximum number of deals. More are sampled.
const MAX_DEALS: usize = 1000;

/// Runs of both sides for enumerating deals.
const MAX_RUNS: usize = 16;

/// Relative rounding tolerance of t.
const SAME: f64 = 1e-9;

/// Returns the adjusted p-value of each quantity: the share of deals whose largest t reaches its
/// own. `None` if only one deal exists (one run per side).
///
/// All quantities must have the same runs. Mean differences below `least` count as 0.
///
/// # Errors
/// [`MeasurementError`], as in [`compare`](crate::compare).
pub fn adjusted_by_dealing(
    quantities: &[Measured<'_>],
    design: Design,
    prior: Prior,
    threshold: f64,
    least: f64,
) -> Result<Option<Vec<f64>>, MeasurementError> {
    let Some(first) = quantities.first() else {
        return Ok(None);
    };
    let runs = [first.base.len(), first.new.len()];
    let Some(deals) = deals(runs, design) else {
        return Ok(None);
    };
    let dealt: Vec<Dealt> = (quantities.iter())
        .map(|measured| Dealt::of(measured, design, prior))
        .collect::<Result<_, _>>()?;
    let margin = threshold.max(0.0).ln_1p();
    let t = |dealt: &Dealt, deal: &[bool]| dealt.t(deal, runs, margin, least);
    let own: Vec<f64> = dealt.iter().map(|dealt| t(dealt, &deals[0])).collect();
    let mut largest: Vec<f64> = (deals.iter())
        .map(|deal| dealt.iter().map(|dealt| t(dealt, deal)).fold(0.0, f64::max))
        .collect();
    largest.sort_by(f64::total_cmp);
    let share = |own: &f64| {
        let below = largest.partition_point(|other| *other < own * (1.0 - SAME));
        (largest.len() - below) as f64 / largest.len() as f64
    };
    Ok(Some(own.iter().map(share).collect()))
}

/// Returns the number of possible deals. Its reciprocal is the smallest possible p-value.
pub fn ways_to_deal([a, b]: [usize; 2], design: Design) -> f64 {
    match design {
        Design::Independent if a == b => combinations(a + b, b) / 2.0,
        Design::Independent => combinations(a + b, b),
        Design::Paired => 2.0_f64.powi(a as i32 - 1),
    }
}

/// Returns deals, the actual one first: whether each run is on the new side, or each pair swapped.
/// Of two mirrored deals, one is omitted.
fn deals(runs: [usize; 2], design: Design) -> Option<Vec<Vec<bool>>> {
    let [a, b] = runs;
    let (length, chosen) = match design {
        Design::Independent => (a + b, Some(b)),
        Design::Paired => (a, None),
    };
    let all = ways_to_deal(runs, design);
    if all < 2.0 {
        return None;
    }
    let made: Vec<bool> = (0..length)
        .map(|run| chosen.is_some() && run >= a)
        .collect();
    if all > MAX_DEALS as f64 || length > MAX_RUNS {
        return Some(drawn(made, chosen.is_some()));
    }
    let is_one_of_two = chosen.is_none() || a == b;
    let fits = |deal: &Vec<bool>| {
        let counts = deal.iter().filter(|is_new| **is_new).count();
        chosen.is_none_or(|chosen| counts == chosen) && !(is_one_of_two && deal[0])
    };
    let bits = |number: u32| (0..length).map(move |run| number >> run & 1 == 1).collect();
    let others = (0..1u32 << length).map(bits).filter(fits);
    let others: Vec<Vec<bool>> = others.filter(|deal| *deal != made).collect();
    Some([vec![made], others].concat())
}

fn drawn(made: Vec<bool>, keeps_number: bool) -> Vec<Vec<bool>> {
    let mut dice = Dice::new(made.len() as u64);
    let mut deals = vec![made];
    while deals.len() < MAX_DEALS {
        let mut deal = deals[0].clone();
        for at in 0..deal.len() {
            if keeps_number {
                let other = at + dice.below(deal.len() - at);
                deal.swap(at, other);
            } else {
                deal[at] = dice.below(2) == 1;
            }
        }
        deals.push(deal);
    }
    deals
}

struct Dealt {
    /// Numbers by run, or their differences by pair.
    logs: Vec<f64>,
    values: Vec<f64>,
    is_paired: bool,
    /// Expected variance of a run, times the prior's degrees of freedom.
    expected: f64,
    prior_degrees: f64,
    known: f64,
}

impl Dealt {
    fn of(
        measured: &Measured<'_>,
        design: Design,
        prior: Prior,
    ) -> Result<Dealt, MeasurementError> {
        let base = logarithms(measured.base, measured.resolution)?;
        let new = logarithms(measured.new, measured.resolution)?;
        let rounding = rounding_variance(&base, &new, measured.resolution);
        let known = measured.sampling_variance.max(rounding);
        let prior_degrees = prior.degrees_of_freedom.max(0.0);
        let (logs, values) = match design {
            Design::Independent => (
                from_mean(&[base, new].concat()).collect(),
                [measured.base, measured.new].concat(),
            ),
            Design::Paired => (
                differences(&base, &new)?,
                differences(measured.base, measured.new)?,
            ),
        };
        Ok(Dealt {
            logs,
            values,
            is_paired: design == Design::Paired,
            expected: prior_degrees * (known + prior.run_to_run_variance),
            prior_degrees,
            known,
        })
    }

    /// Returns |t| of [`compare`](crate::compare); 0 for differences below `least`.
    fn t(&self, deal: &[bool], [a, b]: [usize; 2], margin: f64, least: f64) -> f64 {
        let [a, b] = [a as f64, b as f64];
        let (mut sums, mut squares, mut values) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for ((log, value), is_new) in self.logs.iter().zip(&self.values).zip(deal) {
            let (side, sign) = match (self.is_paired, is_new) {
                (true, true) => (0, -1.0),
                (_, is_new) => (usize::from(*is_new), 1.0),
            };
            sums[side] += sign * log;
            squares[side] += log * log;
            values[side] += sign * value;
        }
        let (difference, of_values, spread, degrees) = match self.is_paired {
            true => {
                let spread = squares[0] - sums[0] * sums[0] / a;
                (sums[0] / a, values[0] / a, spread / 2.0, a - 1.0)
            }
            false => {
                let spread = |side: usize, runs: f64| squares[side] - sums[side].powi(2) / runs;
                (
                    sums[1] / b - sums[0] / a,
                    values[1] / b - values[0] / a,
                    spread(0, a) + spread(1, b),
                    a + b - 2.0,
                )
            }
        };
        if of_values.abs() < least {
            return 0.0;
        }
        let moderated = (self.expected + spread.max(0.0)) / (self.prior_degrees + degrees);
        let error = (moderated.max(self.known) * (1.0 / a + 1.0 / b)).sqrt();
        let beyond = difference.abs() - margin;
        if beyond <= 0.0 { 0.0 } else { beyond / error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(quantities: &[(Vec<f64>, Vec<f64>)], design: Design) -> Option<Vec<f64>> {
        let measured: Vec<_> = (quantities.iter())
            .map(|(base, new)| Measured::exact(base, new))
            .collect();
        adjusted_by_dealing(&measured, design, Prior::NONE, 0.0, 0.0).unwrap()
    }

    #[test]
    fn deals_are_all_ways_to_part_the_runs() {
        let count = |runs, design| deals(runs, design).map(|deals| deals.len());
        assert_eq!(count([5, 5], Design::Independent), Some(126));
        assert_eq!(count([4, 4], Design::Independent), Some(35));
        assert_eq!(count([6, 3], Design::Independent), Some(84));
        assert_eq!(count([3, 3], Design::Independent), Some(10));
        assert_eq!(count([5, 1], Design::Independent), Some(6));
        assert_eq!(count([6, 6], Design::Paired), Some(32));
        assert_eq!(count([5, 5], Design::Paired), Some(16));
        assert_eq!(count([1, 1], Design::Paired), None);
        for (runs, design, ways) in [
            ([5, 5], Design::Independent, 126.0),
            ([5, 1], Design::Independent, 6.0),
            ([5, 5], Design::Paired, 16.0),
            ([1, 1], Design::Independent, 1.0),
        ] {
            assert_eq!(ways_to_deal(runs, design), ways);
        }
        assert_eq!(count([20, 20], Design::Independent), Some(MAX_DEALS));
        assert_eq!(count([1, 1], Design::Independent), None);
    }

    #[test]
    fn sides_that_part_are_the_rarest_deal_and_a_common_kind_is_none() {
        let parted = (
            vec![1.0, 1.01, 0.99, 1.02, 1.0],
            vec![1.2, 1.21, 1.19, 1.2, 1.22],
        );
        assert_eq!(
            shares(std::slice::from_ref(&parted), Design::Independent),
            Some(vec![1.0 / 126.0])
        );
        let kinds = (
            vec![1.0, 2.0, 1.01, 2.01, 1.0],
            vec![2.0, 1.0, 1.02, 2.02, 1.99],
        );
        let both = shares(&[parted.clone(), kinds.clone()], Design::Independent).unwrap();
        assert!(both[0] > 1.0 / 126.0 && both[0] < 0.05, "{both:?}");
        assert!(both[1] > 0.5, "{both:?}");
        let swapped = [(parted.1, parted.0), (kinds.1, kinds.0)];
        assert_eq!(shares(&swapped, Design::Independent), Some(both));
    }

    #[test]
    fn signs_of_pairs_are_dealt_as_fisher_did() {
        // Fisher 1935, section 21: Darwin's fifteen pairs of plants. Of 32,768 signs of
        // differences, 1,726 have a sum as far from 0: 5.267 %.
        let differences = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0,
            -48.0,
        ];
        let base = vec![1e6; 15];
        let new = differences.iter().map(|d| 1e6 + d).collect();
        let found = shares(&[(base, new)], Design::Paired).unwrap()[0];
        assert!((found - 0.05267).abs() < 0.02, "{found}");
    }
}
