//! Tests of the real `rprof-agent`: windows of the whole machine, as they arrive, and exported
//! recordings.

#![allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]

#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the tests of rprof, which use the rest"
)]
#[path = "../../../../tests/support/mod.rs"]
mod support;

mod agent;
mod crashes;
mod servers;
mod tables;
mod windows;
