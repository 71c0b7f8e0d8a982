//! From rings to batches: one thread for each CPU, which drains and does nothing else.
//!
//! ```text
//!             round:  W = clock            |  watermark of the round:
//!   sideband ring --> one batch, carries   |    both rings empty:  W
//!                     the last watermark   |    else: time of the oldest record
//!   sample ring   --> one batch, carries   |          still in a ring, if before W
//!                     the new one          |
//!   buffers <-- recycle -- receiver <------+---- one channel for all CPUs
//! ```
//!
//! - A watermark promises that this CPU will send nothing older later. It is read from the clock
//!   *before* the heads of the rings, so a record stamped earlier is already in its ring.
//! - The two streams are in order by themselves, not with each other: whoever merges them does so by time.
//! - Memory is bounded by the buffers. With no sample buffer free, samples stay in their
//!   ring, and when that is full the kernel drops further ones and counts them in LOST
//!   records. Sideband has an allowance so large that only a receiver that stands still
//!   uses it up; then sideband waits in its ring as well.
//! - A receiver may hold batches until their watermarks are passed on all CPUs: each CPU has
//!   buffers of its own, and its watermark moves on with the oldest record it still has, so
//!   the CPU that is behind all others always has its buffers released.
//! - The channel has a place for every buffer, so sending never blocks and never fails.
//!
//! | module | holds |
//! |---|---|
//! | `batch` | [`Batch`]: what is sent |
//! | [`buffers`] | bounded pools of buffers |
//! | `drainer` | the loop of a thread |
//! | `fast_drain` | [`FastDrain`]: a time of more frequent looks |
//! | `remote` | [`RemoteDrain`]: the same looks from another thread |
//! | `snapshot` | samples of all CPUs at once, out of overwritten rings |
//! | `trace` | [`Traces`]: what tracing units wrote |
//! | `threads` | starting and stopping all of them |
//! | `stack_bases` | [`StackBases`]: where stacks begin, as the receiver found |
//! | `trim` | stack copies, cut to what is in them |

mod batch;
pub mod buffers;
mod drainer;
mod fast_drain;
mod remote;
mod snapshot;
mod stack_bases;
mod threads;
mod trace;
mod trim;

pub use batch::{Batch, NO_CPU, Stream};
pub use buffers::Recycler;
pub use drainer::DrainCounts;
pub use fast_drain::FastDrain;
pub use remote::RemoteDrain;
pub(crate) use snapshot::Snapshot;
pub use stack_bases::StackBases;
pub(crate) use threads::{DrainConfig, DrainThreads};
pub use trace::{TracePiece, Traces};
