//! [`Budget`]: the number of threads that an outermost call may still start.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// Budget of the call that this thread works for.
    static CURRENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

/// Number of threads that a call and its nested calls may still start.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// Permit for one thread, returned on drop.
#[derive(Debug)]
pub(crate) struct Permit(Budget);

impl Budget {
    /// Returns the budget of the current call, and false. In an outermost call, creates a budget
    /// for `threads` threads including this one, and returns true.
    pub(crate) fn of_caller(threads: usize) -> (Self, bool) {
        match CURRENT.with_borrow(Option::clone) {
            Some(current) => (current, false),
            None => (
                Self(Arc::new(AtomicUsize::new(threads.saturating_sub(1)))),
                true,
            ),
        }
    }

    /// Lends this thread's permit. The thread only waits from now on.
    pub(crate) fn lend(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a permit if the budget allows it.
    pub(crate) fn acquire(&self) -> Option<Permit> {
        let one_less = |left: usize| left.checked_sub(1);
        // The counter synchronizes no other memory.
        let taken = (self.0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.is_ok().then(|| Permit(self.clone()))
    }

    pub(crate) fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores the previous budget, even if `work` panics.
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
