//! Compares this crate with processors, compilers, and other readers of call frame information.
//! Tests without their tools are skipped (see `rprof-testing`).
#![allow(clippy::print_stderr)]

mod aarch64;
mod aarch64_code;
mod attached;
mod caches;
mod called;
mod emulated;
mod exceptions;
mod framehop;
mod handed_frames;
mod hostile;
mod i386;
mod image;
mod kept_registers;
mod lisp;
mod process;
mod prologues;
mod readelf;
mod rows;
mod stepping;
mod tables;
mod tools;
mod undescribed;
