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
//!
//! | module | holds |
//! |---|---|
//! | `attrs` | attrs of sample, sideband and other events |
//! | `ring_sizes` | ring sizes and their reasons |
//! | `plan`, `steps` | what to open, and the steps down |
//! | `traces` | checks of trace events, and sizes of their areas |
//! | `degradation` | the steps as values |
//! | `error` | errors with remedies |
//! | `opened` | open events and rings, as data |
//! | `event_set` | events of one subject on one CPU |
//! | `attempt` | repeated attempts to open everything |
//! | `contexts` | reads thread contexts at each sample |
//! | `probe` | one attempt as a test |
//! | `reopen` | a CPU that comes back |
//! | `attach` | threads that already run |
//! | `whole_cpus` | many threads, through events of whole CPUs |

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
