//! Images compared with the kernel and tools of this machine.

#![allow(
    clippy::print_stderr,
    reason = "figures, for those who run with --nocapture"
)]

mod segments;
