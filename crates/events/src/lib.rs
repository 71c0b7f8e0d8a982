//! Events: from what a user types to what the kernel takes, and back.
//!
//! The syntax is that of `perf record -e` (perf-list(1)), and the attrs that come of it equal
//! perf's. Names that only this machine knows are looked up where the kernel lists them:
//! [`pmu`] and [`tracefs`].
//!
//! | written | is |
//! |---|---|
//! | `cycles`, `page-faults`, `L1-dcache-load-misses` | a generic event |
//! | `r1a8` | a code of the CPU's own PMU |
//! | `cpu/event=0xa8,umask=1/`, `msr/tsc/`, `tsc` | an event of a PMU, by terms or by name |
//! | `sched:sched_switch`, `sched:sched_*` | tracepoints |
//! | `mem:0x601040/8:rw` | a breakpoint on an address |
//! | `uprobe:/usr/bin/x:main+4`, `uretprobe:/usr/bin/x:0x1234` | a probe on a program's code |
//! | `kprobe:do_nanosleep`, `kretprobe:do_nanosleep` | a probe on the kernel's code |
//! | `2:314` | type and config as numbers |
//! | `{cycles,instructions}:S` | a group, counted together |
//!
//! Letters behind a colon, or behind the second slash, are [`Modifiers`] and [`Qualifiers`]. Terms
//! between slashes that are no PMU's are [`Settings`], as in `cpu-clock/freq=100/`.
//!
//! | module | holds |
//! |---|---|
//! | `event` | [`Event`] |
//! | `parse` | the syntax |
//! | [`list`] | what this machine has |
//! | [`pmu`], [`tracefs`] | where names are looked up |
//! | [`cpus`] | which CPUs there are |
//! | `generic`, `hw_cache` | generic names and their numbers |
//! | `modifiers` | the letters |
//! | `settings` | terms for any event |
//! | `uprobe`, `breakpoint` | `uprobe:` and `kprobe:`, `mem:` |
//! | `to_attr` | into `perf_event_attr` |
//! | `suggest` | "did you mean" |

mod breakpoint;
pub mod cpus;
mod error;
mod event;
mod generic;
mod hw_cache;
pub mod list;
mod modifiers;
mod parse;
pub mod pmu;
mod rate;
mod settings;
mod sources;
mod suggest;
mod to_attr;
pub mod tracefs;
mod uprobe;

pub use error::EventError;
pub use event::Event;
pub use modifiers::{Modifiers, Qualifiers};
pub use parse::EventParser;
pub use rate::Rate;
pub use settings::{EventStacks, Settings};
pub use sources::Resolver;

#[cfg(test)]
mod tests;
