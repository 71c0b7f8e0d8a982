//! Owners of resident memory: which page fault made each page of a process.
//!
//! A [`Ledger`] takes page faults with their stacks, in order of time, and *looks*: the resident
//! pages of a process at one moment. The owner of a page is the last fault on it since the page was
//! last seen absent. So freed memory has no owner after the next look, however the program freed
//! it, and untouched memory never has one.
//!
//! Some pages become resident without a fault of their own. The kernel maps neighbours in a file at
//! one fault, and all of a huge page. Such a page gets the owner of its
//! [window](Region::window). Any other page without a fault gets [`Owner::Unseen`], or
//! [`Owner::Before`] at the first look at a process that ran before the recording.
//!
//! A [`Heap`] does the same for requested memory: allocations that were sampled by their bytes, with
//! their stacks.
//!
//! The crate does no system calls, and knows neither records nor names of functions.
//!
//! # Examples
//! ```
//! use rprof_memory::{Ledger, Look, Owner, Region, StackNumber};
//!
//! let mut ledger = Ledger::new(4096);
//! ledger.fault(7, 0x10_000, StackNumber(1));
//! ledger.fault(7, 0x11_000, StackNumber(1));
//! // The program gave the first page back, and the kernel made a third one resident.
//! let region = Region::new(0x10_000..0x20_000, b"[heap]").with_present(vec![0x11..0x13]);
//! let look = Look { pid: 7, regions: vec![region], ..Look::default() };
//! ledger.look(&look, Owner::Unseen);
//! let owners: Vec<_> = ledger.live().iter().map(|share| (share.owner, share.pages)).collect();
//! assert_eq!(owners, [(Owner::Fault(StackNumber(1)), 1), (Owner::Unseen, 1)]);
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `ledger` | [`Ledger`]: owners of the pages of all processes |
//! | `process` | owners and mappings of one process |
//! | `pages` | the table from page to owner |
//! | `windows` | owners of pages without a fault of their own |
//! | `look` | [`Look`]: resident pages at one moment |
//! | `kinds` | kinds of mappings, by name |
//! | `history` | [`History`]: memory over time, as changes between snapshots |
//! | `coverage` | [`Coverage`]: how much of the memory has known causes |
//! | `sampled` | [`Sampling`]: what a sampled allocation stands for |
//! | `heap` | [`Heap`]: sampled allocations of all processes, by stack |
//! | `requests` | [`Requests`]: totals of sampled allocations |

mod coverage;
mod heap;
mod history;
mod kinds;
mod ledger;
mod look;
mod pages;
mod process;
mod requests;
mod sampled;
mod windows;

pub use coverage::Coverage;
pub use heap::Heap;
pub use history::{History, Step};
pub use kinds::KindId;
pub use ledger::{Ledger, Share};
pub use look::{Look, Region};
pub use requests::Requests;
pub use sampled::{Estimate, Sampled, Sampling};

/// Prefix of the names of frames for memory in a recording: kinds of mappings, and memory without a
/// stack. It tells them from functions of generated code.
pub const FRAME_PREFIX: &str = "mem::";

/// Name, without [`FRAME_PREFIX`], of the frame for memory from before the recording.
pub const RESIDENT_BEFORE: &str = "[resident before recording]";

/// Names of frames for memory that a recorder numbers first, in this order. So readers know them in
/// a recording without the names.
pub const FIRST_FRAMES: [&str; 6] = [
    "mem::[anon]",
    "mem::[heap]",
    "mem::[stack]",
    "mem::[shared memory]",
    "mem::[no fault seen]",
    "mem::[resident before recording]",
];

/// Number of a stack, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackNumber(pub u32);

/// Cause of a resident page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A page fault with this stack.
    Fault(StackNumber),
    /// The page was resident before the recording.
    Before,
    /// The page became resident without a known fault: the kernel made it (`MAP_POPULATE`,
    /// mlock(2), arguments at exec), mremap(2) moved it, or the fault was lost.
    Unseen,
}
