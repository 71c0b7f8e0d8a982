//! [`CommonChange`]: common change of several quantities.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::comparison::Comparison;

/// Common change of quantities, weighted by inverse variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommonChange {
    /// Logarithm of new / base.
    pub log_ratio: f64,
    /// Standard error of [`log_ratio`](Self::log_ratio).
    pub standard_error: f64,
    /// P-value of "all quantities changed by one factor", by Cochran's Q (1954).
    pub p: f64,
}

impl CommonChange {
    /// Estimates the common change; `None` for fewer than two comparisons with a standard error
    /// above 0.
    pub fn of(comparisons: &[Comparison]) -> Option<CommonChange> {
        let known = comparisons.iter().filter(|c| c.standard_error > 0.0);
        let weighted: Vec<(f64, f64)> = known
            .map(|c| (c.log_ratio, c.standard_error.powi(-2)))
            .filter(|(ratio, weight)| ratio.is_finite() && weight.is_finite())
            .collect();
        let whole: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = weighted.iter().map(|(ratio, weight)| ratio * weight).sum();
        let common = sum / whole;
        let squares = |(ratio, weight): &(f64, f64)| weight * (ratio - common).powi(2);
        let q: f64 = weighted.iter().map(squares).sum();
        let degrees = (weighted.len() as f64) - 1.0;
        let distribution = ChiSquared::new(degrees).ok()?;
        Some(CommonChange {
            log_ratio: common,
            standard_error: whole.powf(-0.5),
            p: distribution.sf(q),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(log_ratio: f64, variance: f64) -> Comparison {
        Comparison {
            log_ratio,
            standard_error: variance.sqrt(),
            degrees_of_freedom: 8.0,
            threshold: 0.0,
            p_more: 0.5,
            p_less: 0.5,
        }
    }

    #[test]
    fn trials_of_a_vaccine_differ_as_published() {
        // Colditz et al. (1994), thirteen trials of BCG: log risk ratios and variances as in R's
        // metafor, whose fixed-effect model gives -0.4303, standard error 0.0405, Q = 152.23 of 12
        // degrees of freedom.
        let trials = [
            (-0.8893, 0.3256),
            (-1.5854, 0.1946),
            (-1.3481, 0.4154),
            (-1.4416, 0.0200),
            (-0.2175, 0.0512),
            (-0.7861, 0.0069),
            (-1.6209, 0.2230),
            (0.0120, 0.0040),
            (-0.4694, 0.0564),
            (-1.3713, 0.0730),
            (-0.3394, 0.0124),
            (0.4459, 0.5325),
            (-0.0173, 0.0714),
        ]
        .map(|(ratio, variance)| comparison(ratio, variance));
        let found = CommonChange::of(&trials).unwrap();
        assert!((found.log_ratio + 0.4303).abs() < 2e-3, "{found:?}");
        assert!((found.standard_error - 0.0405).abs() < 2e-4, "{found:?}");
        assert!(found.p < 1e-20);
    }

    #[test]
    fn equal_changes_agree_and_one_has_no_company() {
        let alike = [0.1, 0.11, 0.09].map(|ratio| comparison(ratio, 0.01));
        let found = CommonChange::of(&alike).unwrap();
        assert!((found.log_ratio - 0.1).abs() < 1e-12 && found.p > 0.95);
        // R: pchisq(2, df = 2, lower.tail = FALSE) = 0.3678794.
        let apart = [-0.1, 0.0, 0.1].map(|ratio| comparison(ratio, 0.01));
        assert!((CommonChange::of(&apart).unwrap().p - 0.367_879_4).abs() < 1e-6);
        assert_eq!(CommonChange::of(&alike[..1]), None);
        assert_eq!(CommonChange::of(&[]), None);
    }
}
