//! Compares this crate with what is outside of it: processors, compilers, other readers of
//! call frame information. Tests whose tools are missing are
//! skipped (see `rprof-testing`).
#![allow(clippy::print_stderr)]

mod aarch64;
mod aarch64_code;
mod attached;
mod caches;
mod framehop;
mod fuzz_corpus;
mod handed_frames;
mod hostile;
mod image;
mod process;
mod prologues;
mod readelf;
mod rows;
mod stepping;
mod survey;
mod tables;
mod tools;
