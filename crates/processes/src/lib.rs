//! Process map model: the processes, thread names and mappings at each time of a recording.
//!
//! A profile consists of addresses, which are meaningless without their process and time. This
//! crate converts the *sideband* (the records that describe processes: MMAP, COMM, FORK, EXIT) into
//! a read-only [`Timeline`]. It maps (pid, time, address) to (image, offset), and (pid, tid, time)
//! to a name.
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
//! | [`ProcessMapBuilder`] | builds a timeline from the records of a recording |
//! | [`Timeline`] | resolves addresses and names at any time, on any number of threads |
//! | [`LiveMap`] | holds only the present state, for recorders |
//! | [`Image`], [`Mapping`] | a file or other backing object, and an address range backed by it |
//!
//! Input: [`ProcessEvent`](rprof_records::ProcessEvent)s, which are interpreted records. Without
//! records, call [`handle_mmap`](ProcessMapBuilder::handle_mmap) and similar methods, for
//! `/proc/PID/maps` or in tests. The crate reads no files, parses no ELF, and makes no system
//! calls.
//!
//! # Data structure
//!
//! An [address space](SpaceId) is a set of mappings with a history. A process has one from its
//! start, and a new one from each exec. The current mappings are always disjoint: a new one
//! replaces what it overlaps, and the rest of older mappings remains with adjusted offsets. The
//! kernel reports no `munmap`, so a covered address stays covered, and much rests on that.
//!
//! All spaces share one store of balanced search trees with structural sharing. A mapping at free
//! addresses is added in place, with its start time. A mapping that replaces others creates a new
//! version of the tree, which shares all but one path with the previous version. A fork shares the
//! parent's whole tree. For `n` mappings in a space with `v` replacements:
//!
//! | operation | time | new memory |
//! |---|---|---|
//! | add a mapping at free addresses | O(log n) | one node (48 bytes) |
//! | replace any number of mappings | O(log n) | O(log n) nodes |
//! | add a late mapping | at most 64 O(log n) | at most 64 nodes, or paths after a fork |
//! | fork, exec, exit, comm | O(1) | O(1) |
//! | [`Timeline::resolve`] | O(log p + log v + log n), p processes | none |
//!
//! These are worst cases: the trees are height-balanced and lookups do not hash, so hostile input
//! gains nothing. Lookup costs do not depend on the length of fork chains.
//!
//! # Late records
//!
//! Feed records in time order, and records of equal times in the order of their events; the last
//! one wins. Real streams sometimes violate this order, and hostile ones arbitrarily. The rules are
//! deterministic:
//!
//! - A late **mapping**, older than the last mapping (or fork) of its address space, replaces
//!   nothing: it fills free addresses, because in true order the others would have replaced it. It
//!   is valid from its own time, or from the last replacement or fork of the space if that is
//!   later.
//! - A late **fork** takes effect at the last mapping time of the parent. If the *child* has a
//!   mapping later than the fork, the fork only sets its parent.
//! - A late **exec** sets the name but keeps the mappings. Losing the new program's mappings would
//!   be worse than keeping stale ones underneath.
//! - **Names** are sorted by time at the end, so their order does not matter.
//!
//! A process without a fork record (it existed before the recording) exists from time 0. No record
//! makes any function here panic.

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
