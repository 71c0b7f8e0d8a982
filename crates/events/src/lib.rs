//! Parses the event syntax of `perf record -e` into `perf_event_attr`, and lists the events of this
//! machine.
//!
//! The syntax follows perf-list(1) and perf-record(1), and the attrs equal perf's.
//! Machine-specific names are looked up in sysfs ([`pmu`]) and [`tracefs`]. The crate opens no
//! events.
//!
//! | syntax | event |
//! |---|---|
//! | `cycles`, `page-faults`, `L1-dcache-load-misses` | generic event |
//! | `r1a8` | raw code of the CPU's own PMU |
//! | `cpu/event=0xa8,umask=1/`, `msr/tsc/`, `tsc` | event of a PMU, by terms or by name |
//! | `sched:sched_switch`, `sched:sched_*` | tracepoints |
//! | `mem:0x601040/8:rw` | breakpoint on an address; access `r`, `w`, `rw` or `x` |
//! | `uprobe:/usr/bin/x:main+4`, `uretprobe:/usr/bin/x:0x1234` | probe on a program's code |
//! | `kprobe:do_nanosleep`, `kretprobe:do_nanosleep` | probe on the kernel's code |
//! | `2:314` | type and config as numbers |
//! | `{cycles,instructions}:S` | group, counted together |
//!
//! Letters after a colon, or after the second slash, are [`Modifiers`] and [`Qualifiers`]. Terms
//! between slashes that belong to no PMU are [`EventSettings`], as in `cpu-clock/freq=100/`.
//!
//! # Not supported
//! | part of perf's syntax | treatment |
//! |---|---|
//! | terms `overwrite`, `aux-output`, `aux-sample-size`, `nr` | refused, with the reason |
//! | accesses `rx`, `wx` and `rwx` of breakpoints | refused, as by every kernel |
//! | modifier `b`, terms `percore` and `time=0` | ignored: see [`Event::ignored_when_sampled`] |
//! | vendor event names built into perf (`perf list`, "pmu events") | unknown; sysfs names only |
//! | `duration_time`, `user_time`, `system_time` | refused: perf stat counts them itself |
//!
//! # Examples
//! ```
//! use rprof_events::Event;
//! use rprof_records::{Attr, EventKind};
//!
//! let event = Event::parse("page-faults:u")?;
//! let mut attr = Attr::default();
//! event.apply(&mut attr);
//! assert_eq!((attr.kind, attr.config), (EventKind::SOFTWARE, 2));
//! assert_eq!(event.describe(), "page-faults:u");
//! # Ok::<(), rprof_events::EventError>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `event` | [`Event`] |
//! | `parse` | [`EventParser`]: the syntax |
//! | `sources` | [`Resolver`], and folders for lookups |
//! | [`list`] | [`Catalog`](list::Catalog): the events of this machine |
//! | [`pmu`], [`tracefs`], [`cpus`] | PMUs, tracepoints and CPUs of this machine |
//! | [`cpu_watch`] | CPUs that go offline and come back |
//! | `generic`, `hw_cache` | generic names and their numbers |
//! | `modifiers`, `settings` | letters, and terms of any event |
//! | `ignored` | [`Ignored`]: parts without effect on sampling |
//! | `probe`, `breakpoint` | `uprobe:` and `kprobe:`, `mem:` |
//! | `trace_unit` | [`TraceUnit`]: PMUs that write a trace |
//! | `to_attr` | [`Event::apply`]: conversion to `perf_event_attr` |
//! | [`glob`] | shell patterns |
//! | `suggest` | "did you mean" |

mod branch_filter;
mod breakpoint;
pub mod cpu_watch;
pub mod cpus;
mod error;
mod event;
mod generic;
pub mod glob;
mod hw_cache;
mod ignored;
pub mod list;
mod modifiers;
mod parse;
pub mod pmu;
mod probe;
mod settings;
mod sources;
pub mod suggest;
mod to_attr;
mod trace_unit;
pub mod tracefs;

pub use branch_filter::{BranchFilterError, branch_filter_names, parse_branch_filter};
pub use error::EventError;
pub use event::Event;
pub use ignored::Ignored;
pub use modifiers::{Modifiers, Qualifiers};
pub use parse::EventParser;
pub use settings::{EventSettings, EventStacks, SamplingRate};
pub use sources::Resolver;
pub use trace_unit::TraceUnit;

#[cfg(test)]
mod tests;
