//! From a recording to a profile.
//!
//! ```text
//!   PerfData --> Index (pass one: sideband, counts) --> resolve (pass two: samples, on all cores)
//!                                                          |
//!                        Profile  <--  symbolize  <--  distinct locations and stacks
//! ```
//!
//! Work is linear in the samples and shared by all cores; what is kept is linear
//! in distinct stacks. A stack seen a million times is resolved once.
//!
//! | module | holds |
//! |---|---|
//! | [`sideband_pass`] | [`Index`]: pass one, the sideband and the tallies |
//! | `reads` | what the members of groups counted, a sample for each |
//! | `jit` | names of code that was made at run time |
//! | [`location`] | [`Location`]: an address, by image and offset |
//! | `caches` | addresses told apart only as far as names need it |
//! | `resolve`, `counting` | pass two: callchains to locations, interned, and counted |
//! | [`symbolize`] | locations to functions, images in parallel |
//! | `assemble` | what was counted to stacks of functions |
//! | [`samples`] | one sample after the other, in order of time |

mod analyse;
mod assemble;
mod caches;
mod comms;
mod group_reads;
mod groups;
mod image_lookup;
mod jit;
mod leaf_filter;
pub mod location;
mod machine;
mod options;
mod sample_pass;
pub mod samples;
pub mod sideband_pass;
mod stack_end;
pub mod symbolize;
mod unwind;
mod warnings;

pub use analyse::analyse;

pub use jit::JitCode;
pub use location::Location;
pub use options::Options;
pub use samples::{Details, Item, RecordView, SampleFrame, SampleView, Samples};
pub use sideband_pass::Index;
pub use symbolize::{Frame, Symbolized, Symbols};
