//! Synthesized records: for existing processes, cgroups and the kernel.

pub(crate) mod cgroups;
pub mod existing;
pub mod kernel_maps;
