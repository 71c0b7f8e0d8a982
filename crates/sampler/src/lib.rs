//! The kernel's side of sampling: events, ring buffers, drain threads.
//!
//! ```text
//!   Event, SamplingOptions --> Plan --> open on every CPU, stepping down --> rings
//!   Launcher --> Child (waits) --go--> the program runs, the kernel writes the rings
//!   rings --> a drain thread for each CPU --> Receiver<Batch> --> the caller
//! ```
//!
//! Events come from `rprof-events`, the command and the targets from `rprof-launch`.
//! [`Session`] puts these together, and each can be used alone. Nearly all of the project's
//! `unsafe` is here. The crate hands out records as bytes, and knows nothing of files or
//! symbols; what records mean is the business of `rprof-records`.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | [`Session`]: a recording from the first event to the last count |
//! | [`options`] | [`SamplingOptions`]: what to sample and how |
//! | [`open`] | [`PerfFd`], [`Degradation`], [`OpenError`]: opening, and steps down |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`drain`] | [`Batch`], [`Recycler`]: from rings to batches |
//! | [`sieve`] | [`Sieve`]: samples that are not to be counted |
//! | [`limits`] | what the administrator allows |
//! | [`errno`] | [`Errno`]: the kernel's error numbers |
//!
//! The reference is perf_event_open(2) and `include/uapi/linux/perf_event.h`.

pub mod drain;
pub mod open;
pub mod options;
pub mod session;
pub mod sieve;
mod sys;

pub use drain::{Batch, DrainCounts, Haste, Recycler, StackTops, Stream};
pub use open::{Degradation, EventIds, Feature, OpenError, Role};
pub use options::{DrainOptions, SamplingOptions};
pub use rprof_perf_event::{
    Count, Errno, Limits, PerfFd, Ring, Subject, errno, limits, page_size, ring,
};
pub use session::{CpuCounts, FinalCounts, Session, SessionBuilder, SessionError};
pub use sieve::Sieve;
pub use sys::{monotonic_ns, run_soon, signal_is_ignored};
