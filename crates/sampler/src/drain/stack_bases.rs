use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A power of two.
const SLOTS: usize = 4096;

/// Bits of a thread id: the maximum is 2^22 (proc(5), `pid_max`).
const TID_BITS: u32 = 22;

/// Granularity of stored addresses in bytes.
const UNIT: u64 = 64;

/// Marks a thread with whole copies.
const DISABLED: u64 = 0;

/// Stack bases by thread: the drain threads drop stack bytes at or above a base.
///
/// The kernel also copies the program's environment, the C library's thread data, or an adjacent
/// mapping. The receiver finds the outermost frame and sets the base.
///
/// Nothing blocks. Clones share one table. Other threads see a base with some delay. Of two threads
/// with one slot, the later replaces the other.
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
    /// Sets the base of a thread: bytes at `base` and above are unneeded. Ignored after
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

    /// Keeps this thread's copies whole from now on: it has nested stacks.
    pub fn disable(&self, tid: u32) {
        if let Some((slot, tag)) = self.slot(tid) {
            slot.store(tag | DISABLED, Ordering::Relaxed);
        }
    }

    /// Removes a thread that ended or executes another program.
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
