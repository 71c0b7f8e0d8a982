//! Overflows of events as signals: F_SETSIG and F_SETOWN_EX of fcntl(2), and SIGTRAP.

mod info;
mod overflow;
mod sampler;
mod traps;

pub use info::{Overflow, OverflowCode, SignalInfo, Trap};
pub use overflow::OverflowSignals;
pub use sampler::{SignalSampler, SignalSamples};
pub use traps::{Traps, TrapsError};
