//! Student's t distribution, by `statrs`, with its limits for zero and many degrees of freedom.

use std::cell::RefCell;
use std::collections::HashMap;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The normal distribution then differs by less than 1e-6, and the incomplete beta function would
/// be slow.
const NORMAL_FROM: f64 = 1e6;

/// Returns the probability of at least `t`. NaN for NaN, or without degrees of freedom.
pub(crate) fn upper_tail(t: f64, degrees_of_freedom: f64) -> f64 {
    // Also rejects NaN.
    let is_known = degrees_of_freedom > 0.0 && !t.is_nan();
    if !is_known {
        return f64::NAN;
    }
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    if degrees_of_freedom >= NORMAL_FROM {
        return Normal::standard().sf(t);
    }
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::NAN, |student| student.sf(t))
}

/// Returns a quantile of the t distribution. NaN without degrees of freedom, or for a `share`
/// outside of (0, 1).
pub(crate) fn quantile(share: f64, degrees_of_freedom: f64) -> f64 {
    let is_known = degrees_of_freedom > 0.0 && share > 0.0 && share < 1.0;
    if !is_known {
        return f64::NAN;
    }
    let key = (share.to_bits(), degrees_of_freedom.to_bits());
    KNOWN.with_borrow_mut(|known| {
        if let Some(known) = known.get(&key) {
            return *known;
        }
        let found = match degrees_of_freedom >= NORMAL_FROM {
            true => Normal::standard().inverse_cdf(share),
            false => StudentsT::new(0.0, 1.0, degrees_of_freedom)
                .map_or(f64::NAN, |student| student.inverse_cdf(share)),
        };
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, found);
        found
    })
}

/// Maximum number of cached quantiles.
const MAX_KNOWN: usize = 1024;

thread_local! {
    /// Quantiles by the bits of share and degrees of freedom. Thousands of functions share a few
    /// quantiles, and each searches the incomplete beta function. Uncached, they took a sixth of a
    /// comparison's time.
    static KNOWN: RefCell<HashMap<(u64, u64), f64>> = RefCell::new(HashMap::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, to three digits.
        for (degrees, expected) in [(1.0, 12.706), (5.0, 2.571), (9.0, 2.262), (30.0, 2.042)] {
            let found = quantile(0.975, degrees);
            assert!((found - expected).abs() < 6e-4, "{degrees}: {found}");
        }
        assert!((quantile(0.975, 1e9) - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn tails_are_those_of_scipy() {
        // scipy.stats.t.sf(t, df), scipy 1.17.1.
        for (t, degrees, expected) in TAILS {
            let found = upper_tail(*t, *degrees);
            assert!(
                (found / expected - 1.0).abs() < 1e-8,
                "{t} {degrees}: {found}"
            );
        }
    }

    #[test]
    fn the_ends_have_values() {
        assert_eq!(upper_tail(f64::INFINITY, 3.0), 0.0);
        assert_eq!(upper_tail(f64::NEG_INFINITY, 3.0), 1.0);
        assert!(upper_tail(1.0, 0.0).is_nan() && upper_tail(f64::NAN, 3.0).is_nan());
        assert!(quantile(0.5, 0.0).is_nan() && quantile(1.0, 4.0).is_nan());
    }

    const TAILS: &[(f64, f64, f64)] = &[
        (0.5, 1.0, 0.35241638234956674),
        (2.0, 3.0, 0.06966298427942152),
        (-1.5, 4.5, 0.8998904571719233),
        (4.0, 9.0, 0.0015552141551929272),
        (12.0, 7.25, 2.4069597264523717e-06),
        (3.0, 120.0, 0.0016419508601170799),
        (25.0, 18.0, 9.916100380540669e-16),
    ];
}
