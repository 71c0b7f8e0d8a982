//! Stacks without frame pointers.

mod aarch64;
mod agreement_with_perf;
mod deep_stacks;
mod runtimes;
mod true_stacks;
