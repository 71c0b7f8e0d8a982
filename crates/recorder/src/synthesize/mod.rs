//! Records that the kernel does not write: of what was there before the recording, and of the kernel
//! itself.

pub(crate) mod cgroups;
pub mod existing;
pub mod kernel_maps;
