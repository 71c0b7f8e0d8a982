//! Real recordings of real programs.
//!
//! Where perf events are not permitted, each test is skipped (see `rprof-testing`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests tell figures, and that they were skipped"
)]

mod attach;
mod contents;
mod lifecycle;
mod order;
mod pressure;
mod support;
