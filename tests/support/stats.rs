//! How far a measured share may lie from the true one.

/// Checks that a share measured with `n` samples is `expected`, but for chance and
/// for `other`, the share that is known to be neither here nor there.
///
/// The number of samples that hit something with share p is at worst binomial: its standard
/// deviation, as a share, is sqrt(p (1 - p) / n). Five of them are exceeded once in
/// 1.7 million tries. Sampling by a clock spreads better than chance does.
pub(crate) fn assert_share(name: &str, measured: f64, expected: f64, n: u64, other: f64) {
    assert!(n > 0, "no samples to measure the share of {name} by");
    let sigma = (expected * (1.0 - expected) / n as f64).sqrt();
    let tolerance = 5.0 * sigma + other;
    assert!(
        (measured - expected).abs() <= tolerance,
        "{name}: {:.2} % of {n} samples, expected {:.2} % +- {:.2} % (5 sigma and {:.2} % of other things)",
        measured * 100.0,
        expected * 100.0,
        tolerance * 100.0,
        other * 100.0,
    );
}
