//! The comparison of a gate.

use std::ffi::OsString;
use std::path::PathBuf;

use rprof_profile::compare::Design;

use crate::cli::GateArgs;
use crate::commands::diff::{Labels, Request};
use crate::wording::messages::Failure;

/// Default threshold.
const LIMIT: f64 = 0.05;

/// Default name in reports.
const NAME: &str = "gate";

pub(super) fn request(args: &GateArgs, design: Design, labels: Labels) -> Request<'_> {
    Request {
        judging: &args.judging,
        shown: &args.shown,
        filter: &args.filter,
        events: &[],
        waits: None,
        quiet: args.quiet,
        design,
        limit: Some(args.judging.fail_above.unwrap_or(LIMIT)),
        labels: Some(labels),
        told: &args.told,
        name: Some(NAME),
    }
}

/// Returns a usage failure (status 2).
pub(super) fn usage(message: &'static str) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

/// Returns a command as it appears in the verdict.
pub(super) fn words(command: &[OsString]) -> PathBuf {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    PathBuf::from(words.join(" "))
}
