//! Opens events, and steps down when the kernel refuses.
//!
//! ```text
//!   Plan --attrs--> attempt: every event on every CPU, ids, rings --> Opened
//!    ^                 |
//!    |                 | refusal (what, where, errno)
//!    +--- step down <--+        each step is a Degradation, told to the user;
//!         or OpenEventsError    no step left: an error with its remedy
//! ```
//!
//! An attempt opens everything or nothing, so that all CPUs record alike. The decisions are pure
//! functions of plan, errno and limits, and are tested without a kernel.

mod attach;
mod attempt;
mod attrs;
mod contexts;
mod degradation;
mod error;
mod event_set;
mod opened;
mod plan;
mod probe;
mod reopen;
pub mod ring_sizes;
mod steps;
mod traces;
mod whole_cpus;

pub use degradation::{AttrFeature, Degradation};
pub use error::OpenEventsError;
pub use opened::{EventIds, Role};
pub use probe::Probe;

pub(crate) use attach::{Threads, open_threads};
pub(crate) use attempt::{Opened, Scope, open};
pub(crate) use contexts::Contexts;
pub(crate) use event_set::{ControlFailure, EventSet};
pub(crate) use opened::{CpuEvents, CpuRings, OverwrittenRing};
pub(crate) use plan::Plan;
pub(crate) use probe::probe;
pub(crate) use reopen::{can_reopen, reopen};
pub(crate) use whole_cpus::open_whole_cpus;
