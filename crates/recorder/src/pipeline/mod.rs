//! The pipeline from batches to sorted and unwound records for the output.
//!
//! | module | contents |
//! |---|---|
//! | [`merge`] | [`Merge`](merge::Merge): sorts the batches of all CPUs by time |
//! | `waiting` | queues of records not yet released |
//! | `flood` | drops records of processes that flood them |
//! | `writer` | the writer thread: merge, unwind, write |
//! | `deferred` | records behind a sample that still needs its stack |
//! | `layouts` | record layouts of the two rings, for decoding process events |

pub(crate) mod deferred;
mod flood;
pub(crate) mod layouts;
pub mod merge;
mod waiting;
pub(crate) mod writer;
