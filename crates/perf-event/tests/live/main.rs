//! The library on this kernel. True values are known by construction: a breakpoint on a word that
//! is written 1,234 times counts 1,234 hits.

mod control;
mod counting;
mod fields;
mod fixture;
mod groups;
mod overwriting;
mod pages;
mod programs;
mod records;
mod sampling;
mod signals;
mod support;
mod targets;
mod traps;
