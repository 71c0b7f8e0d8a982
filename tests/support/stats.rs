//! Tolerances for measured shares.

/// Number of failed measurements before the test fails.
const TRIES: usize = 4;

/// Runs a measurement, and repeats it if its figures exceed random variation.
///
/// A virtual machine sometimes stalls for tenths of a second: the program's clock goes on, but no
/// timer fires, and the running function loses that time. A bug of rprof occurs every time. So a
/// measurement should return an error only for figures that depend on time. Other conditions should
/// panic.
pub(crate) fn measured(mut measure: impl FnMut() -> Result<(), String>) {
    let mut failures = Vec::new();
    while let Err(failure) = measure() {
        println!("measured again: {failure}");
        failures.push(failure);
        assert!(
            failures.len() < TRIES,
            "{TRIES} times in a row: {}",
            failures.join("\n")
        );
    }
}

pub(crate) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Returns RPROF_TRUTH_SECONDS. If set, programs are sampled at the maximum useful rate.
pub(crate) fn truth_seconds() -> Option<f64> {
    let seconds = std::env::var("RPROF_TRUTH_SECONDS").ok()?;
    Some(seconds.parse().expect("a number of seconds"))
}

/// Checks that a share measured with `n` samples is `expected`, within random variation and
/// `other`, the share outside of all expected functions.
///
/// At worst, the number of samples with share p is binomial: its standard deviation, as a share, is
/// sqrt(p (1 - p) / n). Five of them happen once in 1.7 million tries. Sampling by a clock varies
/// less.
///
/// # Errors
/// A message with the figures.
pub(crate) fn check_share(
    name: &str,
    measured: f64,
    expected: f64,
    n: u64,
    other: f64,
) -> Result<(), String> {
    let sigma = (expected * (1.0 - expected) / n as f64).sqrt();
    let tolerance = 5.0 * sigma + other;
    check(n > 0 && (measured - expected).abs() <= tolerance, || {
        format!(
            "{name}: {:.2} % of {n} samples, expected {:.2} % +- {:.2} % (5 sigma and {:.2} % of other things)",
            measured * 100.0,
            expected * 100.0,
            tolerance * 100.0,
            other * 100.0,
        )
    })
}
