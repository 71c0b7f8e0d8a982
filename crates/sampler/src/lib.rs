//! The kernel's side of sampling: events, ring buffers, drain threads.
//!
//! ```text
//!   Event, SamplingOptions --> Plan --> open on every CPU, stepping down --> rings
//!   Launcher --> Child (waits) --go--> the program runs, the kernel writes the rings
//!   rings --> a drain thread for each CPU --> Receiver<Batch> --> the caller
//! ```
//!
//! [`Session`] puts these together, and each can be used alone. Nearly all of the project's
//! `unsafe` is here. The crate hands out records as bytes, and knows nothing of files or
//! symbols; what records mean is the business of `rprof-records`.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | [`Session`]: a recording from the first event to the last count |
//! | [`event`] | [`Event`]: names and numbers of events |
//! | [`options`] | [`SamplingOptions`]: what to sample and how |
//! | [`open`] | [`PerfFd`], [`Degradation`], [`OpenError`]: opening, and steps down |
//! | [`ring`] | [`Ring`]: one ring buffer |
//! | [`drain`] | [`Batch`], [`Recycler`]: from rings to batches |
//! | [`launch`] | [`Launcher`], [`Child`]: the program to be watched |
//! | [`cpus`] | which CPUs there are |
//! | [`limits`] | what the administrator allows |
//! | [`errno`] | [`Errno`]: the kernel's error numbers |
//!
//! The reference is perf_event_open(2) and `include/uapi/linux/perf_event.h`.

pub mod cpus;
pub mod drain;
pub mod errno;
pub mod event;
pub mod launch;
pub mod limits;
pub mod open;
pub mod options;
pub mod ring;
pub mod session;
mod sys;

pub use drain::{Batch, DrainCounts, Recycler, Stream};
pub use errno::Errno;
pub use event::{Event, EventError, Modifiers};
pub use launch::{Child, ExecError, LaunchError, Launcher, Waited};
pub use limits::Limits;
pub use open::{Count, Degradation, EventIds, Feature, OpenError, PerfFd, Role};
pub use options::{DrainOptions, Rate, SamplingOptions};
pub use ring::Ring;
pub use session::{CpuCounts, FinalCounts, Session, SessionBuilder, SessionError};
pub use sys::{monotonic_ns, signal_is_ignored};
