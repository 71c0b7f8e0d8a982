//! [`RemoteDrain`]: drains rings from a thread that is not pinned to their CPUs.

use super::drainer::{self, SharedDrainer};
use std::fmt;
use std::sync::{Arc, PoisonError, TryLockError};

/// Rings of all CPUs, for a receiver that drains them itself during fast draining.
///
/// A drain thread preempts the workload on its CPU; the receiver can run on any idle CPU. Its
/// watermarks lag by 1 ms, since it may see a partial record.
#[derive(Clone)]
pub struct RemoteDrain {
    pub(super) drainers: Arc<[SharedDrainer]>,
}

impl fmt::Debug for RemoteDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.drainers.len();
        f.debug_struct("RemoteDrain").field("cpus", &count).finish()
    }
}

impl RemoteDrain {
    /// Drains every ring once, unless its own thread does.
    pub fn drain(&self) {
        for shared in &*self.drainers {
            let mut drainer = match shared.try_lock() {
                Ok(drainer) => drainer,
                Err(TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
                Err(TryLockError::WouldBlock) => continue,
            };
            if let Some(drainer) = drainer.as_mut() {
                drainer.drain_remotely();
            }
        }
    }

    /// Takes a CPU's index, and pairs of ids, the new one first.
    pub(crate) fn add_aliases(&self, index: usize, ids: &[(u64, u64)]) {
        if let Some(shared) = self.drainers.get(index)
            && let Some(drainer) = drainer::locked(shared).as_mut()
        {
            drainer.add_aliases(ids);
        }
    }
}
