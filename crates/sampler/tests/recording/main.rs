//! Real recordings of real programs.
//!
//! Where perf events are not permitted, each test says that it is skipped, and fails instead
//! when `RPROF_REQUIRE_TOOLS=1` is set.
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
