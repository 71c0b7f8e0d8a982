//! The analysed profile: from a recording to interned, symbolized, weighted stacks.
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
//! | [`filter`] | [`Filter`]: which samples count |
//! | [`index`] | [`Index`]: pass one, the sideband and the tallies |
//! | `reads` | what the members of groups counted, a sample for each |
//! | `jit` | names of code that was made at run time |
//! | [`location`] | [`Location`]: an address, by image and offset |
//! | `coarse` | addresses told apart only as far as names need it |
//! | `resolve`, `counting` | pass two: callchains to locations, interned, and counted |
//! | [`symbolize`] | locations to [`Function`]s, images in parallel |
//! | `assemble` | what was counted to stacks of functions |
//! | [`model`] | [`Profile`]: what an export is made from |
//! | [`top`] | the top functions |
//! | [`quality`] | [`Quality`]: how much of it is known, and why not the rest |
//! | [`samples`] | one sample after the other, in order of time |

mod analyse;
mod assemble;
mod coarse;
mod counting;
mod counts;
pub mod filter;
mod identity;
pub mod index;
mod intern;
mod jit;
mod lbr;
pub mod location;
mod machine;
mod memo;
pub mod model;
mod pages;
mod parts;
pub mod quality;
mod quick;
mod reads;
mod resolve;
pub mod samples;
mod stacks;
pub mod symbolize;
mod tasks;
mod threads;
pub mod top;
mod unwind;
mod waiting;
mod worker;

pub use analyse::Options;
pub use filter::Filter;
pub use index::Index;
pub use jit::JitCode;
pub use location::Location;
pub use model::{
    Entry, EventSummary, FileId, Function, FunctionId, Object, ObjectId, Profile, StackId, Start,
};
pub use quality::{Quality, StackTally};
pub use samples::{Details, Item, RecordView, SampleFrame, SampleView, Samples};
pub use symbolize::{Frame, Line, Symbolized, Symbols};
pub use top::{Keys, RowKey, TopFunctions, TopRow, Weight};
