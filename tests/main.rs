//! The real `rprof` on real programs.
//!
//! One binary of modules. Each test has a folder of its own and reads like a session in a
//! shell (see [`support`]); the programs that are recorded are compiled from `fixtures/`. Nothing
//! asserts how long something takes, and nothing waits for a fixed time.

#[macro_use]
mod support;

mod agreement;
mod collapse;
mod corpus;
mod demo;
mod exit_status;
mod flamegraph;
mod header;
mod kernel;
mod names;
mod record;
mod report;
mod script;
mod shares;
mod signals;
mod usage;
