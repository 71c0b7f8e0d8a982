//! [`StackBases`]: the address at which each thread's stack begins, as the receiver found it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of threads for which a base is kept; a power of two.
const SLOTS: usize = 4096;

/// Bits of a thread's id: no system has more than 2^22 (proc(5), `pid_max`).
const TID_BITS: u32 = 22;

/// Unit of the addresses that are kept, in bytes.
const UNIT: u64 = 64;

/// Value for a thread whose stack is not to be cut.
const DISABLED: u64 = 0;

/// Per-thread stack base: bytes of a user stack at or above it are not forwarded.
///
/// The kernel copies on to the end of the mapping: the environment of a program, the C library's
/// data of a thread, a mapping that happens to lie behind. The receiver, which unwinds, finds the
/// outermost frame and sets the base here; drain threads then leave out what lies above.
///
/// Cheap to clone; all clones share one table. Nothing here blocks, and a base that one thread sets
/// reaches the others at some later time. Two threads may share a slot: the later one stays.
#[derive(Clone, Debug)]
pub struct StackBases {
    slots: Arc<[AtomicU64]>,
}

impl Default for StackBases {
    fn default() -> Self {
        StackBases {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl StackBases {
    /// Sets the base of a thread: no byte at `base` or above is needed. Ignored after
    /// [`disable`](Self::disable).
    pub fn set(&self, tid: u32, base: u64) {
        let (Some((slot, tag)), units) = (self.slot(tid), base.div_ceil(UNIT)) else {
            return;
        };
        if units >> (u64::BITS - TID_BITS) != 0 {
            return;
        }
        let old = slot.load(Ordering::Relaxed);
        let new = tag | units << TID_BITS;
        if old != new && old != (tag | DISABLED) {
            slot.store(new, Ordering::Relaxed);
        }
    }

    /// Leaves the copies of this thread whole from now on: it has several stacks, one within the
    /// other.
    pub fn disable(&self, tid: u32) {
        if let Some((slot, tag)) = self.slot(tid) {
            slot.store(tag | DISABLED, Ordering::Relaxed);
        }
    }

    /// Forgets a thread that ended, or executes another program.
    pub fn forget(&self, tid: u32) {
        if let Some((slot, tag)) = self.slot(tid)
            && slot.load(Ordering::Relaxed) & TID_MASK == tag
        {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the base of a thread, rounded up to 64 bytes.
    pub fn get(&self, tid: u32) -> Option<u64> {
        let (slot, tag) = self.slot(tid)?;
        let value = slot.load(Ordering::Relaxed);
        let base = (value >> TID_BITS) * UNIT;
        (value & TID_MASK == tag && base != DISABLED).then_some(base)
    }

    /// Returns the slot of a thread, and the tag by which it is this thread's.
    fn slot(&self, tid: u32) -> Option<(&AtomicU64, u64)> {
        let slot = self.slots.get(tid as usize % SLOTS)?;
        (tid != 0 && u64::from(tid) <= TID_MASK).then_some((slot, tid.into()))
    }
}

const TID_MASK: u64 = (1 << TID_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_that_of_one_thread() {
        let bases = StackBases::default();
        let (tid, other) = (7, 7 + SLOTS as u32);
        assert_eq!(bases.get(tid), None);
        bases.set(tid, 0x7fff_ffff_f001);
        assert_eq!(bases.get(tid), Some(0x7fff_ffff_f040));
        assert_eq!(bases.get(other), None);
        bases.forget(other);
        assert!(bases.get(tid).is_some());
        bases.set(other, 0x1000);
        assert_eq!((bases.get(tid), bases.get(other)), (None, Some(0x1000)));
        bases.forget(other);
        assert_eq!(bases.get(other), None);
    }

    #[test]
    fn disabling_lasts_until_the_thread_is_forgotten() {
        let bases = StackBases::default();
        bases.disable(5);
        bases.set(5, 0x1000);
        assert_eq!(bases.get(5), None);
        bases.forget(5);
        bases.set(5, 0x1000);
        assert_eq!(bases.get(5), Some(0x1000));
    }

    #[test]
    fn ids_and_addresses_that_do_not_fit_are_ignored() {
        let bases = StackBases::default();
        bases.set(5, u64::MAX);
        bases.set(u32::MAX, 0x1000);
        bases.set(0, 0x1000);
        assert_eq!(
            (bases.get(5), bases.get(u32::MAX), bases.get(0)),
            (None, None, None)
        );
    }
}
