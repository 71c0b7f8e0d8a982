//! From batches to records in order, unwound, handed to the output.
//!
//! | module | holds |
//! |---|---|
//! | [`merge`] | [`Merge`](merge::Merge): batches of all CPUs into one order of time |
//! | `waiting` | records that are not in order yet, by their time |
//! | `flood` | records of processes that make them without end, left out |
//! | `writer` | the writer thread: merge, unwind, hand on |
//! | `deferred` | records that wait for the stack of one before them |
//! | `layouts` | the layouts of the two rings, by which process events are decoded |

pub(crate) mod deferred;
mod flood;
pub(crate) mod layouts;
pub mod merge;
mod waiting;
pub(crate) mod writer;
