//! From rings to batches, by one drain thread for each CPU.
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
//! - A watermark promises that this CPU will send no older record. It is read from the clock
//!   *before* the heads of the rings, so every earlier record is already in its ring.
//! - Each of the two streams is ordered, but not with the other. Merge them by time.
//! - The buffers limit the memory. Without a free sample buffer, samples stay in their ring. When
//!   it is full, the kernel drops samples and counts them in LOST records. Only a stalled receiver
//!   uses up the sideband buffers.
//! - A receiver may hold batches until all CPUs have passed their watermarks. Each CPU has its own
//!   buffers, and its watermark follows its oldest waiting record. So the slowest CPU always gets
//!   its buffers back.
//! - The channel has a place for every buffer, so sending never blocks or fails.

mod aliases;
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

pub(crate) use aliases::Aliases;
pub use batch::{Batch, NO_CPU, Stream};
pub use buffers::Recycler;
pub use drainer::DrainCounts;
pub use fast_drain::FastDrain;
pub use remote::RemoteDrain;
pub(crate) use snapshot::{OverwrittenRings, Snapshot};
pub use stack_bases::StackBases;
pub(crate) use threads::{DrainConfig, DrainThreads};
pub use trace::{TracePiece, Traces};
pub(crate) use trim::Dumps;
