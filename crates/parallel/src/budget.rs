//! [`Budget`]: the threads that an outermost call may still start.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// Budget of the call that this thread works for.
    static CURRENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

/// Count of threads that may still be started, shared by a call and all calls within it.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// The right to one thread; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Budget);

impl Budget {
    /// Returns the budget of the call that this thread works for, and false; or else a new one,
    /// for `threads` threads with this one, and true.
    pub(crate) fn of_caller(threads: usize) -> (Self, bool) {
        match CURRENT.with_borrow(Option::clone) {
            Some(current) => (current, false),
            None => (
                Self(Arc::new(AtomicUsize::new(threads.saturating_sub(1)))),
                true,
            ),
        }
    }

    /// Lends the place of this thread, which will only wait from now on, until all calls end.
    pub(crate) fn lend(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the right to a thread, if one is left.
    pub(crate) fn acquire(&self) -> Option<Permit> {
        let one_less = |left: usize| left.checked_sub(1);
        // The count says nothing of other memory.
        let taken = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.is_ok().then(|| Permit(self.clone()))
    }

    /// Does `work`, all calls in which share this budget.
    pub(crate) fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts the budget back that was there before, also where `work` panics.
        struct Before(Option<Budget>);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _before = Before(CURRENT.replace(Some(self.clone())));
        work()
    }
}

impl Permit {
    /// Does `work` on the thread that was permitted.
    pub(crate) fn enter<R>(self, work: impl FnOnce(Permit) -> R) -> R {
        let budget = self.0.clone();
        budget.enter(|| work(self))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
