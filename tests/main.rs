//! The real `rprof` on real programs.
//!
//! One binary of modules. Each test has a folder of its own and reads like a session in a
//! shell (see [`support`]); the programs that are recorded are compiled from `fixtures/`. Nothing
//! asserts how long something takes, and nothing waits for a fixed time.

#![allow(
    clippy::print_stdout,
    reason = "figures, for those who run with --nocapture"
)]

#[macro_use]
mod support;

mod aarch64;
mod agreement;
mod archive;
mod attach;
mod collapse;
mod containers;
mod corpus;
mod corpus_table;
mod debuginfod;
mod deep;
mod demo;
mod doctor;
mod events;
mod exit_status;
mod faults;
mod flamegraph;
mod header;
mod hostile_names;
mod inlines;
mod java;
mod jit;
mod jit_unwinding;
mod kernel;
mod lines;
mod list;
mod matrix;
mod names;
mod overlay;
mod record;
mod report;
mod rotation;
mod script;
mod shares;
mod signals;
mod storm;
mod truth;
mod unwound;
mod usage;
mod vmlinux;
