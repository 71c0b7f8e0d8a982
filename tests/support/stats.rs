//! Tolerances for measured shares.

/// Number of measurements after which figures are believed to be wrong.
const TRIES: usize = 4;

/// Makes a measurement, with a recording of its own, again where its figures are beyond what
/// chance explains.
///
/// The machine is the other explanation: a virtual one stands still now and then, for
/// tenths of a second, in which the program's clock goes on and no timer goes off. All of that is
/// missing from whatever function was running. A fault of rprof is there each time; so only figures
/// that time has a part in belong in here. What must hold of every recording is asserted outside, or by
/// a panic.
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

/// A condition of a measurement, and what to say if it does not hold.
pub(crate) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Returns the seconds for which programs whose stacks are known are to run, if RPROF_TRUTH_SECONDS says so: they are then
/// sampled as often as makes sense.
pub(crate) fn truth_seconds() -> Option<f64> {
    let seconds = std::env::var("RPROF_TRUTH_SECONDS").ok()?;
    Some(seconds.parse().expect("a number of seconds"))
}

/// Checks that a share measured with `n` samples is `expected`, but for chance and
/// for `other`, the share that is known to be neither here nor there.
///
/// The number of samples that hit something with share p is at worst binomial: its standard
/// deviation, as a share, is sqrt(p (1 - p) / n). Five of them are exceeded once in
/// 1.7 million tries. Sampling by a clock spreads better than chance does.
///
/// # Errors
/// A sentence with the figures.
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
