//! Opening events, and what to do when the kernel says no.
//!
//! ```text
//!   Plan --attrs--> attempt: every event on every CPU, ids, rings --> Opened
//!    ^                 |
//!    |                 | refusal (what, where, errno)
//!    +--- step down <--+        each step is a Degradation, told to the user;
//!         or OpenError          no step left: an error with its remedy
//! ```
//!
//! An attempt is all or nothing, so that every CPU is watched in the same way. The
//! decisions are pure functions of plan, errno and limits, and are tested without a kernel.
//!
//! | module | holds |
//! |---|---|
//! | `attrs` | the attrs of sample, sideband and other events |
//! | `ring_sizes` | how large the rings are, and why |
//! | `plan`, `steps` | what to open, and the steps down |
//! | `traces` | events that write a trace: which may be had, and how large their areas are |
//! | `degradation` | the steps as values |
//! | `error` | errors with remedies |
//! | `opened` | open events and rings, as data |
//! | `event_set` | the events that watch one thing on one CPU |
//! | `attempt` | one attempt after another at opening everything |
//! | `attach` | threads that run already |

mod attach;
mod attempt;
mod attrs;
mod degradation;
mod error;
mod event_set;
mod opened;
mod plan;
pub mod ring_sizes;
mod steps;
mod traces;

pub use degradation::{Degradation, Feature};
pub use error::OpenError;
pub use opened::{EventIds, Role};

pub(crate) use attach::{Threads, open_threads};
pub(crate) use attempt::{Opened, Scope, open};
pub(crate) use event_set::{ControlFailure, EventSet};
pub(crate) use opened::{CpuEvents, CpuRings, OverwrittenRing};
pub(crate) use plan::Plan;
