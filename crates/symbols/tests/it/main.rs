//! Compares this crate with tools outside it, on programs compiled for the purpose and on
//! those of the system. A missing tool is reported and its test skipped, unless
//! `RPROF_REQUIRE_TOOLS=1` is set.
#![allow(clippy::print_stderr)]

mod debug_files;
mod demangling;
mod hostile;
mod hostile_dwarf;
mod images;
mod inlines;
mod nm;
mod others;
mod perf;
mod perf_debug;
mod perf_tool;
mod threads;
mod tools;
mod vmlinux;
