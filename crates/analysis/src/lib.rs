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
//! | [`index`] | [`Index`]: pass one, the sideband and the tallies |
//! | `reads` | what the members of groups counted, a sample for each |
//! | `jit` | names of code that was made at run time |
//! | [`location`] | [`Location`]: an address, by image and offset |
//! | `coarse` | addresses told apart only as far as names need it |
//! | `resolve`, `counting` | pass two: callchains to locations, interned, and counted |
//! | [`symbolize`] | locations to functions, images in parallel |
//! | `assemble` | what was counted to stacks of functions |
//! | [`samples`] | one sample after the other, in order of time |

mod analyse;
mod assemble;
mod coarse;
mod comms;
mod counting;
mod counts;
mod identity;
pub mod index;
mod jit;
mod lbr;
pub mod location;
mod machine;
mod memo;
mod pages;
mod parts;
mod quick;
mod reads;
mod resolve;
pub mod samples;
mod stacks;
pub mod symbolize;
mod tasks;
mod threads;
mod unwind;
mod waiting;
mod worker;

pub use analyse::{Options, analyse};
pub use index::Index;
pub use jit::JitCode;
pub use location::Location;
pub use samples::{Details, Item, RecordView, SampleFrame, SampleView, Samples};
pub use symbolize::{Frame, Symbolized, Symbols};
