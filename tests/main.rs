//! The real `rprof` on real programs.
//!
//! One binary of modules. Each test has a folder of its own and reads like a session in a
//! shell (see [`support`]); the programs that are recorded are compiled from `fixtures/`. Nothing
//! asserts how long something takes, and nothing waits for a fixed time.

#![allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]

mod support;

mod agent;
mod annotate;
mod attach;
mod cli;
mod coverage;
mod diff;
mod html;
mod jit;
mod push;
mod record;
mod report;
mod robustness;
mod security;
mod stat;
mod symbols;
mod top;
mod unwind;
