//! Sampling sessions: opens perf events on many CPUs and drains their rings into batches.
//!
//! ```text
//!   Event, SamplingOptions --> Plan --> open on every CPU, stepping down --> rings
//!   Launcher --> Child (waits) --go--> the program runs, the kernel writes the rings
//!   rings --> a drain thread for each CPU --> Receiver<Batch> --> the caller
//! ```
//!
//! [`Session`] is the entry point. Records come out as bytes, which `rprof-records` decodes. Events
//! come from `rprof-events`, the command and the targets from `rprof-launch`, single events and
//! rings from `rprof-perf-event`. The crate writes no files and knows no symbols.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | [`Session`]: a recording from the first event to the last count |
//! | [`options`] | [`SamplingOptions`]: what to sample and how |
//! | [`open`] | [`Degradation`], [`OpenEventsError`]: opening on many CPUs, and steps down |
//! | [`drain`] | [`Batch`], [`Recycler`]: from rings to batches |
//! | [`inherited_filter`] | [`InheritedEventFilter`]: drops duplicate samples |
//!
//! # Example
//!
//! ```no_run
//! use rprof_launch::Launcher;
//! use rprof_sampler::Session;
//!
//! let mut session = Session::builder()
//!     .frequency(999)
//!     .launch(&Launcher::new("make").arg("-j4"))?;
//! session.start()?;
//! let batches = session.batches().clone();
//! let recycler = session.recycler();
//! let receiver = std::thread::spawn(move || {
//!     let mut bytes = 0;
//!     for batch in batches {
//!         bytes += batch.bytes.len();
//!         recycler.recycle(batch);
//!     }
//!     bytes
//! });
//! session.wait_or(None, None)?;
//! let counts = session.stop();
//! println!("{:?} bytes, {:?} lost", receiver.join(), counts.lost_samples());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: perf_event_open(2) and `include/uapi/linux/perf_event.h`.

mod boost;
mod clock;
pub mod drain;
pub mod inherited_filter;
mod memory;
pub mod open;
pub mod options;
mod scheduling;
pub mod session;
mod target_only;
mod trace_area;
mod wakeup;

pub use boost::{Boosted, LateBoost};
pub use clock::monotonic_ns;
pub use drain::{
    Batch, DrainCounts, FastDrain, NO_CPU, Recycler, RemoteDrain, StackBases, Stream, TracePiece,
    Traces,
};
pub use inherited_filter::InheritedEventFilter;
pub use open::{AttrFeature, Degradation, EventIds, OpenEventsError, Probe, Role};
pub use options::{DrainOptions, Extras, SamplingOptions};
pub use rprof_perf_event::{Clock, ReadError, Reading, Remedy};
pub use scheduling::{prefer_this_thread, take_no_precedence};
pub use session::{
    ControlAction, ControlError, CpuCounts, EventCount, FinalCounts, FinerEvents, FinerSampling,
    Session, SessionBuilder, SessionError, SwitchEvents,
};
