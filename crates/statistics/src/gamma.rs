//! Trigamma function and its inverse, which `statrs` lacks.

/// Argument from which the asymptotic series has full precision.
const SERIES_FROM: f64 = 10.0;

/// Returns the second derivative of ln Γ at a positive `x` (Abramowitz and Stegun, 6.4.6 and
/// 6.4.12).
pub(crate) fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    // ψ₁(x) = ψ₁(x + 1) + 1/x²
    while x < SERIES_FROM {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0
        - square
            * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * 5.0 / 66.0)));
    sum + 1.0 / x + square / 2.0 + square / x * series
}

/// Inverts [`trigamma`]; `None` unless `value` is positive and finite.
///
/// Newton's method on 1/ψ₁, which is convex and nearly linear (Smyth, *Linear Models and Empirical
/// Bayes Methods*, 2004, appendix).
pub(crate) fn inverse_trigamma(value: f64) -> Option<f64> {
    let is_usable = value > 0.0 && value.is_finite();
    if !is_usable {
        return None;
    }
    // The series' first term is exact here.
    if value > 1e7 {
        return Some(1.0 / value.sqrt());
    }
    if value < 1e-6 {
        return Some(1.0 / value);
    }
    let mut x = 0.5 + 1.0 / value;
    for _ in 0..50 {
        let here = trigamma(x);
        let step = here * (1.0 - here / value) / tetragamma(x);
        x += step;
        if -step / x < 1e-10 {
            break;
        }
    }
    Some(x)
}

/// Returns the derivative of [`trigamma`] at a positive `x` (Abramowitz and Stegun, 6.4.6 and
/// 6.4.13).
fn tetragamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < SERIES_FROM {
        sum -= 2.0 / (x * x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 0.5 - square * (1.0 / 6.0 - square * (1.0 / 6.0 - square * 0.3));
    sum - square - square / x - square * square * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn trigamma_has_its_known_values() {
        // Abramowitz and Stegun, 6.4.2 and 6.4.4; scipy.special.polygamma(1, x), scipy 1.17.1,
        // below.
        let known = [
            (1.0, PI * PI / 6.0),
            (0.5, PI * PI / 2.0),
            (0.01, 10001.621213528311),
            (0.3, 12.245364546107734),
            (3.7, 0.31003785767003833),
            (9.9, 0.1062830416287406),
            (25.5, 0.03999466964956292),
            (1000.0, 0.001000500166666633),
        ];
        for (x, expected) in known {
            let found = trigamma(x);
            assert!((found / expected - 1.0).abs() < 1e-12, "{x}: {found}");
        }
    }

    #[test]
    fn the_inverse_leads_back() {
        for x in [1e-5, 0.01, 0.3, 1.0, 2.5, 9.9, 10.1, 50.0, 4_000.0, 1e9] {
            let back = inverse_trigamma(trigamma(x)).unwrap();
            assert!((back / x - 1.0).abs() < 1e-6, "{x}: {back}");
        }
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(inverse_trigamma(wrong), None);
        }
    }
}
