//! Compares this crate with other tools, on programs compiled for the purpose and on system files.
//! Tests with missing tools are skipped (see `rprof-testing`).
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod chains;
mod debug_files;
mod demangling;
mod fuzz_corpus;
mod hostile;
mod hostile_dwarf;
mod images;
mod inlines;
mod judge;
mod line_ranges;
mod memory;
mod nm;
mod oracle;
mod others;
mod perf;
mod perf_debug;
mod perf_tool;
mod stored_answers;
mod threads;
mod tools;
mod vmlinux;
