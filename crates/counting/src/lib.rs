//! Counting sessions: count events in a command, in running processes, or on whole CPUs.
//!
//! ```text
//!   events, target --plan--> groups that fit --open--> counters for each place (thread or CPU)
//!                                                        |
//!                              CountTable by CPU, core, … <--count-- Snapshot <--read at any time
//! ```
//!
//! A session opens counters and reads them. It does not sample and needs no ring buffers.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | [`CountingSession`], [`SessionOptions`] |
//! | [`snapshot`] | [`Snapshot`]: readings of all counters at one time; differences of two |
//! | [`count`] | [`Count`]: count of one event, with the share of time for which it was counted |
//! | [`table`] | [`CountTable`]: counts by CPU, core, socket, node or thread |
//! | [`mod@metrics`] | [`Metric`]: instructions per cycle, CPUs used, miss rates, top-down |
//! | [`notice`] | [`SessionNotice`], [`EventState`]: limitations and their reasons |
//! | [`error`] | [`CountError`] |
//! | `follow` | counters for the threads of a command |
//! | `plan` | groups of events |
//! | `open` | counters of one place, with fallbacks |
//! | `place_counter` | counter of one event in one place |
//! | `places` | threads and CPUs of a target; [`Per`]: granularity of a table |
//! | [`topology`] | [`Topology`]: cores, sockets and nodes of CPUs |
//!
//! # Examples
//! Page faults of a command:
//!
//! ```no_run
//! use rprof_counting::{CountingSession, Part, SessionOptions};
//! use rprof_events::Event;
//! use rprof_launch::Launcher;
//!
//! let options = SessionOptions::new(Event::parse_list("page-faults:u,task-clock:u")?);
//! let mut session = CountingSession::launch(&options, &Launcher::new("true"))?;
//! session.start()?;
//! session.wait_or(None, None)?;
//! let counts = session.read().table(Default::default());
//! println!("{:?} page faults", counts.count(Part::All, 0).and_then(|count| count.value()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod count;
pub mod error;
mod follow;
pub mod metrics;
pub mod notice;
mod open;
mod place_counter;
mod places;
mod plan;
pub mod session;
pub mod snapshot;
pub mod table;
pub mod topology;

pub use count::Count;
pub use error::CountError;
pub use metrics::{Metric, MetricUnit, metrics};
pub use notice::{EventState, SessionNotice};
pub use places::Per;
pub use session::{CountingSession, SessionOptions};
pub use snapshot::Snapshot;
pub use table::{CountTable, Part};
pub use topology::Topology;
