//! The process map model: who ran, under which name, with which mappings, when.
//!
//! A profile is a list of addresses, and an address means nothing without the
//! process it was seen in and the moment. This crate turns the *sideband* (the
//! records that describe processes: MMAP, COMM, FORK, EXIT) into a read-only
//! [`Timeline`] which answers (pid, time, address) -> (image, offset), and
//! (pid, tid, time) -> name.
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
//! Both are fed by [`ProcessEvent`](rprof_records::ProcessEvent)s, in which records have
//! been given their meaning already. The builder has plain typed verbs as well
//! ([`handle_mmap`](ProcessMapBuilder::handle_mmap) and so on), for `/proc/PID/maps` and for
//! what a test makes up. No files are read here, no ELF, and no system is called.
//!
//! # How it is kept
//!
//! An [address space](SpaceId) is one set of mappings with a history; a process
//! has one from its birth, and another from each exec on. At any moment its
//! mappings are disjoint: a new one cuts away what it overlaps, and the parts of
//! older mappings outside it live on, with their offsets adjusted. The kernel
//! reports no `munmap`, so an address once covered stays covered, and much rests
//! on that.
//!
//! All spaces share one store of balanced search trees with structural sharing.
//! A mapping that covers nothing older carries its own begin time and is added in
//! place; one that replaces something makes a new version of the tree, sharing
//! all but a path with the one before; a fork shares the whole tree with the
//! parent. For `n` mappings in a space with `v` replacements:
//!
//! | operation | time | new memory |
//! |---|---|---|
//! | mapping added where nothing was | O(log n) | one node (48 bytes) |
//! | mapping replacing others, however many | O(log n) | O(log n) nodes |
//! | late mapping | 64 O(log n) at most | 64 nodes at most, or paths after a fork |
//! | fork, exec, exit, comm | O(1) | O(1) |
//! | [`Timeline::resolve`] | O(log p + log v + log n), p processes | none |
//!
//! These are worst cases, not averages: the trees are height-balanced and no
//! lookup hashes, so input made to hurt gains nothing. Chains of forks have no
//! depth.
//!
//! # Late records
//!
//! Records are to be fed in time order, equal times in the order in which they
//! happened; a later one with an equal time wins. Real streams break this now
//! and then, and hostile ones as they please. The rules, which are the same on
//! every run:
//!
//! - A **mapping** stamped earlier than the last mapping (or fork) of its address
//!   space does not replace anything: it fills what no mapping covered yet, since
//!   in true order the others would have replaced it. It holds from its own time,
//!   or from the last replacement or fork of that space if that was later.
//! - A late **fork** takes effect at the last mapping time of the parent. If the
//!   *child* already has a mapping that is later than the fork, then the child is
//!   known, and the fork adds only who its parent is.
//! - A late **exec** renames, but keeps the mappings: losing those of the new
//!   program would be worse than keeping those of the old one underneath.
//! - **Names** are sorted by time at the end, so lateness does no harm.
//!
//! A process that no fork announced (it ran before the recording did) exists from
//! time 0. No record makes any function here panic.

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
pub use image::{Image, ImageIdentity, ImageKind};
pub use live::{
    Images, LiveMap, LiveMapping, LiveProcesses, MappingRecord, NamedImages, Records, Retain,
    find as find_live,
};
pub use mapping::{Mapping, Resolved};
pub use moment::Moment;
pub use process::{Process, Thread};
pub use timeline::{Stats, Timeline};
pub use view::MapView;
