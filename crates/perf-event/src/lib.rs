//! perf_event_open(2) made safe: events, counters and ring buffers of this kernel.
//!
//! | module | holds |
//! |---|---|
//! | [`fd`] | [`PerfFd`]: one open event: the system call, ioctls, counter reads |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`limits`] | [`Limits`]: what the administrator allows |
//! | [`errno`] | [`Errno`]: the kernel's error numbers |

pub mod errno;
pub mod fd;
pub mod limits;
pub mod ring;
mod sys;

pub use errno::Errno;
pub use fd::{Count, PerfFd, Subject};
pub use limits::Limits;
pub use ring::Ring;
pub use sys::page_size;
