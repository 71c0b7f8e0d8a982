//! Tests of the real `rprof` on real programs.
//!
//! Each test has its own folder and reads like a shell session (see [`support`]). No test asserts a
//! duration or waits for a fixed time.

#![allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]

mod support;

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
