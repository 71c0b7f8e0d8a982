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
//! | `plan`, `steps` | what is to be opened, and the steps down |
//! | `degradation` | the steps as values |
//! | `error` | errors with remedies |
//! | `opened` | the attempt and its result |
//! | `watch` | the events that watch one thing |
//! | `threads` | attaching to threads that run |

mod attrs;
mod degradation;
mod error;
mod opened;
mod plan;
pub mod ring_sizes;
mod steps;
mod threads;
mod watch;

pub use degradation::{Degradation, Feature};
pub use error::OpenError;
pub use opened::{EventIds, Role};

pub(crate) use opened::{CpuEvents, CpuRings, Opened, Scope, open};
pub(crate) use plan::Plan;
pub(crate) use threads::{Threads, open_threads};
pub(crate) use watch::Watch;
