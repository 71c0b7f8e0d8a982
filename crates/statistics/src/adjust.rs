//! Adjustment of p-values for multiple tests.

/// Correction of p-values for the number of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Correction {
    /// Benjamini and Hochberg (1995): controls the false discovery rate, except for negatively
    /// dependent tests.
    #[default]
    BenjaminiHochberg,
    /// Benjamini and Yekutieli (2001): controls the false discovery rate under any dependence.
    BenjaminiYekutieli,
    /// Holm (1979): controls the probability of any false finding.
    Holm,
}

impl Correction {
    /// Adjusts p-values for comparison with one limit.
    pub fn adjust(self, p_values: &[f64]) -> Vec<f64> {
        match self {
            Correction::BenjaminiHochberg => benjamini_hochberg(p_values),
            Correction::BenjaminiYekutieli => benjamini_yekutieli(p_values),
            Correction::Holm => holm(p_values),
        }
    }

    /// Returns the maximum p-value of a single finding among `tests`, at the limit `q`.
    pub fn level_alone(self, q: f64, tests: usize) -> f64 {
        let tests = tests.max(1);
        match self {
            Correction::BenjaminiHochberg | Correction::Holm => q / tests as f64,
            Correction::BenjaminiYekutieli => q / (tests as f64 * harmonic(tests)),
        }
    }
}

/// Adjusts p-values by Benjamini and Hochberg (1995).
///
/// If all adjusted values up to `q` are findings, at most the share `q` is false on average. NaN
/// counts as 1.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len() as f64;
    // Keeps the order of the p-values.
    step(p_values, true, |p, rank| p * m / rank as f64)
}

/// Adjusts p-values by Benjamini and Yekutieli (2001): as [`benjamini_hochberg`], for dependent
/// tests.
pub fn benjamini_yekutieli(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    let factor = m as f64 * harmonic(m);
    step(p_values, true, |p, rank| p * factor / rank as f64)
}

fn harmonic(n: usize) -> f64 {
    (1..=n).map(|rank| 1.0 / rank as f64).sum()
}

/// Adjusts p-values by Holm (1979). If all adjusted values up to a limit are findings, the
/// probability of any false one is at most the limit.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len();
    step(p_values, false, |p, rank| p * (m + 1 - rank) as f64)
}

/// Scales p-values by rank (1 for the smallest). Restores their order by the minimum from above
/// (`downward`), or the maximum from below.
fn step(p_values: &[f64], downward: bool, scale: impl Fn(f64, usize) -> f64) -> Vec<f64> {
    let known = |index: usize| match p_values[index] {
        p if p.is_nan() => 1.0,
        p => p,
    };
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| known(*a).total_cmp(&known(*b)));
    let mut ranks: Vec<(usize, usize)> = order.into_iter().zip(1..).collect();
    if downward {
        ranks.reverse();
    }
    let mut adjusted = vec![1.0; p_values.len()];
    let mut bound = if downward { 1.0_f64 } else { 0.0 };
    for (index, rank) in ranks {
        let scaled = scale(known(index), rank).min(1.0);
        bound = match downward {
            true => bound.min(scaled),
            false => bound.max(scaled),
        };
        adjusted[index] = bound;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Benjamini and Hochberg 1995, section 3.2. At 0.05, the method accepts four; Bonferroni and
    /// Holm accept three.
    const PAPER: [f64; 15] = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0000,
    ];

    fn believed(adjusted: &[f64]) -> usize {
        adjusted.iter().filter(|p| **p <= 0.05).count()
    }

    #[test]
    fn the_example_of_the_paper_comes_out() {
        let adjusted = benjamini_hochberg(&PAPER);
        assert_eq!(believed(&adjusted), 4);
        // scipy.stats.false_discovery_control(PAPER), scipy 1.17.1, to six digits.
        let expected = [
            0.0015000, 0.0030000, 0.0095000, 0.0356250, 0.0603000, 0.0638571, 0.0638571, 0.0645000,
            0.0765000, 0.4860000, 0.5811818, 0.7148750, 0.7532308, 0.8132143, 1.0000000,
        ];
        for (found, expected) in adjusted.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{adjusted:?}");
        }
        assert_eq!(believed(&holm(&PAPER)), 3);
        // The above times 1 + 1/2 + … + 1/15 = 3.318229 (Benjamini and Yekutieli 2001, theorem
        // 1.3).
        let expected = [
            0.0049773, 0.0099547, 0.0315232, 0.1182119, 0.2000892, 0.2118926, 0.2118926, 0.2140258,
            0.2538445, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
        ];
        for (found, expected) in benjamini_yekutieli(&PAPER).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn a_lone_test_is_believed_up_to_its_level() {
        for correction in [
            Correction::BenjaminiHochberg,
            Correction::BenjaminiYekutieli,
            Correction::Holm,
        ] {
            let level = correction.level_alone(0.05, 15);
            for (p, is_believed) in [(level * 0.999, true), (level * 1.001, false)] {
                let mut p_values = [1.0; 15];
                p_values[7] = p;
                assert_eq!(correction.adjust(&p_values)[7] <= 0.05, is_believed);
            }
        }
    }

    #[test]
    fn order_does_not_count() {
        let mut turned = PAPER;
        turned.reverse();
        let mut back = benjamini_hochberg(&turned);
        back.reverse();
        assert_eq!(back, benjamini_hochberg(&PAPER));
    }

    #[test]
    fn no_number_is_no_evidence() {
        assert_eq!(benjamini_hochberg(&[f64::NAN, 0.01]), [1.0, 0.02]);
        assert_eq!(holm(&[0.01, f64::NAN]), [0.02, 1.0]);
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
    }
}
