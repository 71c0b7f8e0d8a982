//! Stacks without frame pointers.

mod aarch64;
mod agreement_with_perf;
mod assembly;
mod deep_stacks;
mod edges;
mod go;
mod i386;
mod paths;
mod python;
mod runtimes;
mod short_copies;
mod true_stacks;
