//! The library on this kernel. Truth is made by construction: a word that is written 1,234 times has
//! a breakpoint that counts 1,234 hits.

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
