//! [`RemoteDrain`]: draining rings from a thread that is bound to none of their CPUs.

use super::drainer::SharedDrainer;
use std::fmt;
use std::sync::{Arc, PoisonError, TryLockError};

/// Rings of all CPUs, to be drained by the receiver of their batches while it is in haste.
///
/// A drain thread on its own CPU preempts what runs there, each time. The receiver is woken by the clock anyway, on
/// whichever CPU is idle, and can read a ring from there. Its watermarks are 1 ms behind, since it may look while the kernel
/// is in the middle of a record. What it drains comes through the channel, behind what was sent before.
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
    /// Drains every ring once. One that its own thread is draining at the moment is left to it.
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
}
