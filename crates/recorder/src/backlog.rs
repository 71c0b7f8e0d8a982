//! [`Backlog`]: whether samples pile up before the writer thread.

use crossbeam_channel::Receiver;
use rprof_sampler::{Batch, Boosted};

/// The batches that wait for the writer thread. While many do, it waits for nothing itself: samples would be lost
/// in full rings.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    batches: Receiver<Batch>,
    /// Number of batches from which on there are many.
    many: usize,
    boosted: Boosted,
}

impl Backlog {
    /// Looks at a channel, in which there are many batches where there are `many`. `boosted` is the writer thread's.
    pub(crate) fn new(batches: Receiver<Batch>, many: usize, boosted: Boosted) -> Backlog {
        Backlog {
            batches,
            many,
            boosted,
        }
    }

    /// Returns the switch by which threads that the writer thread waits for get the CPU when it does.
    pub(crate) fn boosted(&self) -> &Boosted {
        &self.boosted
    }

    /// Returns true if the writer thread is behind.
    pub(crate) fn is_long(&self) -> bool {
        self.batches.len() >= self.many
    }
}

impl Default for Backlog {
    /// One that is never long.
    fn default() -> Backlog {
        Backlog::new(crossbeam_channel::never(), usize::MAX, Boosted::default())
    }
}
