//! Records that the kernel does not write: of what was there before the recording, and of the kernel
//! itself.

pub mod existing;
pub mod kernel_maps;
