//! Analysis of recordings: from perf.data, or from records while they come, to a profile.
//!
//! | function or type | makes of a recording |
//! |---|---|
//! | [`analyse`] | a [`Profile`](rprof_profile::Profile): samples summed up by stack |
//! | [`LiveAnalysis`] | profiles of records while they come, without a file |
//! | [`Samples`] | its samples one by one, in order of time |
//! | [`Index`] | its processes over time, and what was lost |
//!
//! Names of functions come from a [`Symbolizer`](rprof_symbols::Symbolizer). A function without a
//! name has a [`Reason`](rprof_profile::Reason) instead.
//!
//! # Examples
//!
//! From bytes to a profile. A recorder made them; here the file has no samples.
//! ```
//! use std::path::Path;
//!
//! EXAMPLE
//! ```
//!
//! # How
//!
//! ```text//!
//! ```text
//!   PerfData --> Index (pass one: sideband, counts) --> resolve (pass two: samples, on all cores)
//!                                                          |
//!                        Profile  <--  symbolize  <--  distinct locations and stacks
//! ```
//!
//! Work is linear in the samples and shared by all cores; memory is linear in distinct stacks. A
//! stack seen a million times is resolved once.
//!
//! | module | holds |
//! |---|---|
//! | [`sideband_pass`] | [`Index`]: pass one, the sideband and the tallies |
//! | `group_reads` | counts of group members, as a sample for each |
//! | `jit` | names and unwind information of JIT code |
//! | [`location`] | [`Location`]: an address, by image and offset |
//! | `sample_pass` | pass two: callchains to locations, interned, and aggregated |
//! | `caches` | caches of pass two, and canonical addresses |
//! | `unwind` | stack dumps, unwound on reading |
//! | [`symbolize`] | locations to functions, images in parallel |
//! | `assemble` | aggregated locations to the profile |
//! | `live` | [`LiveAnalysis`]: profiles while records come, without a file |
//! | [`samples`] | [`Samples`]: single samples in order of time |

mod analyse;
mod assemble;
mod caches;
mod comms;
mod group_reads;
mod groups;
mod image_lookup;
mod jit;
mod leaf_filter;
mod live;
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
pub use live::{LiveAnalysis, LiveWriter};
pub use location::Location;
pub use options::Options;
pub use samples::{Details, Item, RecordView, SampleFrame, SampleView, Samples};
pub use sideband_pass::Index;
pub use symbolize::{Frame, Symbolized, Symbols};
