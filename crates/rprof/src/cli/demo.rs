//! `demo`, and the program that it records.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Records a bundled program with two threads and shows what comes of it.
///
/// Prints its top functions beside the shares that the program is made to spend, and
/// writes flamegraph.svg.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Flame graph to write
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// CPU seconds that each of the two threads spends
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}

fn parse_demo_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=600.0).contains(&s) => Ok(s),
        _ => Err("between 0.01 and 600".into()),
    }
}

/// The program that `demo` records.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    #[arg(default_value_t = 2.0, value_parser = parse_demo_seconds)]
    pub(crate) seconds: f64,
}
