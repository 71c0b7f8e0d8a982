//! Process map model: processes, thread names and mappings at each time of a recording.
//!
//! This crate converts the *sideband* (records that describe processes: MMAP, COMM, FORK, EXIT)
//! into a read-only [`Timeline`]. It maps (pid, time, address) to (image, offset), and (pid, tid,
//! time) to a name.
//!
//! ```text
//!   sideband, in time order                  samples, in any order, on all cores
//!            |                                               |
//!            v                                               v
//!   ProcessMapBuilder  ---------- finish() ---------->   Timeline
//!     handle(time, &ProcessEvent)                          resolve, resolve_kernel
//!                                                          comm
//!   LiveMap (the present only, for recorders)              state, view, moment
//!     handle(&ProcessEvent) --> mappings, threads
//! ```
//!
//! | type | purpose |
//! |---|---|
//! | [`ProcessMapBuilder`] | builds a timeline from records |
//! | [`Timeline`] | resolves addresses and names at any time |
//! | [`LiveMap`] | the present only, for recorders |
//! | [`Image`], [`Mapping`] | a file or other backing object, and an address range backed by it |
//!
//! Without [`ProcessEvent`](rprof_records::ProcessEvent)s, call
//! [`handle_mmap`](ProcessMapBuilder::handle_mmap) and similar methods. The crate reads no files,
//! parses no ELF, and makes no system calls.
//!
//! # Data structure
//!
//! An [address space](SpaceId) is a set of mappings with a history. A process starts with one, and
//! gets another one with each exec. Current mappings are disjoint: a new one replaces the
//! overlapped parts, and the rest of older mappings remains with adjusted offsets. The kernel
//! reports no `munmap`, so a covered address stays covered.
//!
//! All spaces share one store of balanced search trees with structural sharing. A mapping at free
//! addresses is added in place, with its start time. A replacement creates a new version of the
//! tree, which shares all but one path with the previous version. A fork shares the whole tree. For
//! `n` mappings in a space with `v` replacements:
//!
//! | operation | time | new memory |
//! |---|---|---|
//! | add a mapping at free addresses | O(log n) | one node (48 bytes) |
//! | replace any number of mappings | O(log n) | O(log n) nodes |
//! | add a late mapping | at most 64 O(log n) | at most 64 nodes, or paths after a fork |
//! | fork, exec, exit, comm | O(1) | O(1) |
//! | [`Timeline::resolve`] | O(log p + log v + log n), p processes | none |
//!
//! These are worst cases: trees are balanced and lookups do not hash, so hostile input gains
//! nothing. A chain of forks adds no depth.
//!
//! # Late records
//!
//! Feed records in time order, and records of equal times in their true order: the last one wins.
//! Real streams sometimes violate this order, hostile ones arbitrarily. The rules are
//! deterministic:
//!
//! - A late **mapping**, older than its space's last mapping (or fork), fills free addresses: in
//!   true order the others would have replaced it. It is valid from its own time, or from the
//!   space's last replacement or fork if that is later.
//! - A late **fork** takes effect at the parent's last mapping time. If the *child* has a later
//!   mapping than the fork, the fork only sets its parent.
//! - A late **exec** sets the name but keeps the mappings. Losing the new program's mappings would
//!   be worse than keeping stale ones.
//! - **Names** are sorted by time at the end.
//!
//! A process without a fork record exists from time 0. No record makes any function here panic.

mod builder;
mod huge_pages;
mod ids;
mod image;
mod live;
mod mapping;
mod moment;
mod names;
mod process;
mod space;
mod timeline;
mod tree;
mod view;

pub use builder::{NewMapping, ProcessMapBuilder};
pub use ids::{CommId, ImageId, MapState, Pid, SpaceId, Tid, Time};
pub use image::{Image, ImageIdentity, ImageKind, image_name};
pub use live::{
    Images, LiveMap, LiveMapping, LiveProcesses, MappingRecord, NamedImages, PrivilegedExecs,
    Records, Retain, find as find_live,
};
pub use mapping::{Mapping, Resolved};
pub use moment::Moment;
pub use process::{Process, ThreadLife};
pub use timeline::{Stats, Timeline};
pub use view::MapView;
