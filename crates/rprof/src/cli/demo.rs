//! Arguments of `rprof demo` and of the program that it records.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Records a built-in program and shows the result, as a first try.
///
/// Prints the program's functions with measured and expected shares of time, and writes
/// flamegraph.svg.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Flame graph to write
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// CPU time of each of the two threads, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}

fn parse_demo_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("expected a number from 0.01 to 600".into()),
    }
}

/// Arguments of the program that `demo` records: a hidden command of rprof.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    #[arg(default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}
