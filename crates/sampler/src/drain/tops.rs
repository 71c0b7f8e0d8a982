//! [`StackTops`]: where the stack of each thread begins, as far as the receiver knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of which something is kept; a power of two.
const PLACES: usize = 4096;

/// Bits of a thread's number: no system has more than 2^22 (proc(5), `pid_max`).
const TID_BITS: u32 = 22;

/// Addresses are kept in units of this many bytes.
const UNIT: u64 = 64;

/// What is kept of a thread whose stack is not to be cut.
const NEVER: u64 = 0;

/// Above which address the copies of each thread's stack hold nothing that anybody will ask for.
///
/// The kernel copies on to the end of what is mapped: the environment of a program, the
/// C library's data of a thread, a mapping that happens to lie behind. Whoever unwinds knows where
/// the outermost frame is, and tells it here; drain threads then leave out what lies behind.
///
/// Cheap to clone: all clones are one. Nothing here waits, and what one thread is told shows in
/// others at some later time. Of two threads that share a place the later one is known.
#[derive(Clone, Debug)]
pub struct StackTops {
    places: Arc<[AtomicU64]>,
}

impl Default for StackTops {
    fn default() -> Self {
        StackTops {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl StackTops {
    /// The stack of this thread needs no byte at `top` or above. Ignored after
    /// [`never`](Self::never).
    pub fn learn(&self, tid: u32, top: u64) {
        let (Some((place, tag)), units) = (self.place(tid), top.div_ceil(UNIT)) else {
            return;
        };
        if units >> (u64::BITS - TID_BITS) != 0 {
            return;
        }
        let known = place.load(Ordering::Relaxed);
        let new = tag | units << TID_BITS;
        if known != new && known != (tag | NEVER) {
            place.store(new, Ordering::Relaxed);
        }
    }

    /// This thread has several stacks, one within the other: leave its copies whole.
    pub fn never(&self, tid: u32) {
        if let Some((place, tag)) = self.place(tid) {
            place.store(tag | NEVER, Ordering::Relaxed);
        }
    }

    /// This thread ended, or executes another program.
    pub fn forget(&self, tid: u32) {
        if let Some((place, tag)) = self.place(tid)
            && place.load(Ordering::Relaxed) & TID_MASK == tag
        {
            place.store(0, Ordering::Relaxed);
        }
    }

    /// The address that was learnt of a thread, or one less than 64 bytes above it.
    pub fn get(&self, tid: u32) -> Option<u64> {
        let (place, tag) = self.place(tid)?;
        let known = place.load(Ordering::Relaxed);
        let top = (known >> TID_BITS) * UNIT;
        (known & TID_MASK == tag && top != NEVER).then_some(top)
    }

    /// The place of a thread, and what stands there if it is this one's.
    fn place(&self, tid: u32) -> Option<(&AtomicU64, u64)> {
        let place = self.places.get(tid as usize % PLACES)?;
        (tid != 0 && u64::from(tid) <= TID_MASK).then_some((place, tid.into()))
    }
}

const TID_MASK: u64 = (1 << TID_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_is_of_one_thread() {
        let tops = StackTops::default();
        let (tid, other) = (7, 7 + PLACES as u32);
        assert_eq!(tops.get(tid), None);
        tops.learn(tid, 0x7fff_ffff_f001);
        assert_eq!(tops.get(tid), Some(0x7fff_ffff_f040));
        assert_eq!(tops.get(other), None);
        tops.forget(other);
        assert!(tops.get(tid).is_some());
        tops.learn(other, 0x1000);
        assert_eq!((tops.get(tid), tops.get(other)), (None, Some(0x1000)));
        tops.forget(other);
        assert_eq!(tops.get(other), None);
    }

    #[test]
    fn never_lasts_until_the_thread_is_forgotten() {
        let tops = StackTops::default();
        tops.never(5);
        tops.learn(5, 0x1000);
        assert_eq!(tops.get(5), None);
        tops.forget(5);
        tops.learn(5, 0x1000);
        assert_eq!(tops.get(5), Some(0x1000));
    }

    #[test]
    fn numbers_that_do_not_fit_are_passed_over() {
        let tops = StackTops::default();
        tops.learn(5, u64::MAX);
        tops.learn(u32::MAX, 0x1000);
        tops.learn(0, 0x1000);
        assert_eq!(
            (tops.get(5), tops.get(u32::MAX), tops.get(0)),
            (None, None, None)
        );
    }
}
