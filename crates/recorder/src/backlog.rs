//! [`Backlog`]: detects that the writer thread is behind.

use crossbeam_channel::Receiver;
use rprof_sampler::{Batch, Boosted};

/// Queue of batches for the writer thread. While it is long, the writer must not block, or the
/// rings lose samples.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    batches: Receiver<Batch>,
    many: usize,
    boosted: Boosted,
}

impl Backlog {
    /// Watches a channel, which is long from `many` batches on. `boosted` is the writer thread's
    /// boost.
    pub(crate) fn new(batches: Receiver<Batch>, many: usize, boosted: Boosted) -> Backlog {
        Backlog {
            batches,
            many,
            boosted,
        }
    }

    /// Returns the flag that gives the CPU to threads that the writer waits for.
    pub(crate) fn boosted(&self) -> &Boosted {
        &self.boosted
    }

    pub(crate) fn is_long(&self) -> bool {
        self.batches.len() >= self.many
    }
}

impl Default for Backlog {
    /// Creates a backlog that is never long.
    fn default() -> Backlog {
        Backlog::new(crossbeam_channel::never(), usize::MAX, Boosted::default())
    }
}
