//! Compares this crate with what is outside of it: processors, compilers, other readers of
//! call frame information. A missing tool is reported and its test skipped, unless
//! `RPROF_REQUIRE_TOOLS=1` is set.
#![allow(clippy::print_stderr)]

mod aarch64;
mod attached;
mod framehop;
mod hostile;
mod image;
mod process;
mod readelf;
mod rows;
mod stepping;
mod survey;
mod tables;
mod tools;
