//! Images against the kernel and tools of this machine.

mod segments;
