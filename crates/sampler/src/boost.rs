//! [`LateBoost`]: real-time scheduling of a late receiver.

use crate::clock::monotonic_ns;
use crate::scheduling;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nanoseconds.
const LIMIT: u64 = 300_000_000;

/// Minimum credit in ns to begin.
const MINIMUM: u64 = 30_000_000;

/// Time in ns that earns one ns of boost.
const EARNED_IN: u64 = 4;

/// Real-time scheduling of the calling thread while it is late, at most a quarter of the time.
///
/// A nice value works only within one scheduling group, such as a session (`sched_autogroup`) or a
/// container. A receiver without CPU time loses samples. SCHED_FIFO ignores groups, but takes the
/// CPU from everything else.
///
/// Does nothing if SCHED_FIFO is not permitted (CAP_SYS_NICE, `ulimit -r`).
#[derive(Debug, Default)]
pub struct LateBoost {
    account: Account,
    is_settled: bool,
    boosted: Boosted,
}

impl LateBoost {
    /// Creates the boost of an ordinary receiver. With `realtime`, the drain threads' priority, it
    /// is a real-time thread from the first [`update`](Self::update) on.
    pub fn new(realtime: Option<u8>) -> LateBoost {
        let boost = LateBoost::default();
        // Drain threads have a higher priority.
        let priority = realtime.map_or(0, |drains| drains.saturating_sub(1).max(1));
        boost.boosted.set(priority);
        boost
    }

    /// Returns true if the receiver is boosted.
    pub fn is_on(&self) -> bool {
        self.account.is_on
    }

    /// Returns the handle for threads that the receiver waits for.
    pub fn boosted(&self) -> Boosted {
        self.boosted.clone()
    }

    /// Begins or ends the boost of the calling thread. Nearly free otherwise.
    pub fn update(&mut self, is_late: bool) {
        if self.is_settled {
            return;
        }
        let on = self.account.is_on;
        let asked = self.boosted.priority();
        if asked != 0 && !on {
            self.is_settled = true;
            // The session reports a refusal.
            let _ = scheduling::make_realtime(asked);
            return;
        }
        if !(is_late || on) {
            return;
        }
        let will = self.account.update(is_late, monotonic_ns());
        let changed = match (on, will) {
            (false, true) => scheduling::make_realtime(scheduling::LATE_RECEIVER)
                .map(|()| self.boosted.set(scheduling::LATE_RECEIVER)),
            (true, false) => {
                self.boosted.end();
                scheduling::make_ordinary()
            }
            _ => return,
        };
        if changed.is_err() {
            (self.is_settled, self.account.is_on) = (true, false);
        }
    }

    /// Ends the boost of the calling thread for good.
    pub fn end(&mut self) {
        self.update(false);
        self.is_settled = true;
    }
}

thread_local! {
    static FOLLOWED: RefCell<Option<Followed>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct Followed {
    boosted: Boosted,
    tid: libc::pid_t,
}

impl Drop for Followed {
    fn drop(&mut self) {
        // This thread still exists, so its id is unique.
        let mut helpers = self.boosted.helpers();
        helpers.retain(|(tid, _)| *tid != self.tid);
    }
}

/// Passes a receiver's boost on to threads that it waits for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Boosted(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Real-time priority of the receiver; 0 for none.
    priority: AtomicU8,
    /// Followers with their current priorities.
    helpers: Mutex<Vec<(libc::pid_t, u8)>>,
}

impl Boosted {
    fn priority(&self) -> u8 {
        self.0.priority.load(Ordering::Relaxed)
    }

    fn set(&self, priority: u8) {
        self.0.priority.store(priority, Ordering::Relaxed);
    }

    fn helpers(&self) -> MutexGuard<'_, Vec<(libc::pid_t, u8)>> {
        (self.0.helpers.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the boost of all followers at once: their work may take long.
    fn end(&self) {
        let mut helpers = self.helpers();
        self.set(0);
        for (tid, priority) in helpers.iter_mut().filter(|(_, priority)| *priority != 0) {
            // Lowering a priority is always permitted.
            let _ = scheduling::make_thread_ordinary(*tid);
            *priority = 0;
        }
    }

    /// Gives the calling thread the receiver's scheduling. Call it before each piece of work that a
    /// boosted receiver may wait for.
    pub fn follow(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let is_first = FOLLOWED.with_borrow_mut(|followed| {
            let is_first = followed.is_none();
            followed.get_or_insert_with(|| Followed {
                boosted: self.clone(),
                tid,
            });
            is_first
        });
        if is_first {
            scheduling::prefer_this_thread();
        }
        let mut helpers = self.helpers();
        let at = helpers.iter().position(|(its, _)| *its == tid);
        let at = at.unwrap_or_else(|| {
            helpers.push((tid, 0));
            helpers.len() - 1
        });
        let priority = self.priority();
        // Without permission, the receiver is not boosted either.
        let _ = match (helpers[at].1, priority) {
            (old, new) if old == new => Ok(()),
            (_, 0) => scheduling::make_ordinary(),
            (_, priority) => scheduling::make_realtime(priority),
        };
        helpers[at].1 = priority;
    }
}

#[derive(Debug)]
struct Account {
    is_on: bool,
    /// Nanoseconds.
    left: u64,
    seen_at: u64,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            is_on: false,
            left: LIMIT,
            seen_at: 0,
        }
    }
}

impl Account {
    /// Returns true if the thread is to be boosted from `now` (ns) on.
    fn update(&mut self, is_late: bool, now: u64) -> bool {
        let passed = now.saturating_sub(self.seen_at);
        let spent = if self.is_on { passed } else { 0 };
        self.left = (self.left + passed / EARNED_IN).min(LIMIT);
        self.left = self.left.saturating_sub(spent);
        self.seen_at = now;
        let least = if self.is_on { 1 } else { MINIMUM };
        self.is_on = is_late && self.left >= least;
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_late_thread_is_boosted_until_it_has_caught_up() {
        let mut account = Account::default();
        assert!(!account.update(false, 0));
        assert!(account.update(true, MS));
        assert!(account.update(true, 2 * MS));
        assert!(!account.update(false, 3 * MS));
        assert!(account.update(true, 4 * MS));
    }

    #[test]
    fn a_thread_that_is_always_late_is_boosted_for_a_quarter_of_the_time() {
        let mut account = Account::default();
        let on = (0..100_000).filter(|ms| account.update(true, ms * MS));
        let boosted = on.count();
        assert!((24_900..=25_400).contains(&boosted), "{boosted}");
        let begin = 10_000_000;
        let on = (begin..begin + 1000).filter(|ms| account.update(true, ms * MS));
        let boosted = on.count();
        assert!((300..=600).contains(&boosted), "{boosted}");
    }

    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn helpers_follow_a_boost_where_it_is_allowed() {
        on_a_thread(|| {
            let mut boost = LateBoost::new(None);
            let boosted = boost.boosted();
            boost.update(false);
            assert_eq!(scheduling::policy(), libc::SCHED_OTHER);
            boost.update(true);
            let policy = scheduling::policy();
            let is_boosted = policy == (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
            assert_eq!(is_boosted, !boost.is_settled);
            let (helper, steps) = (boosted.clone(), Arc::new(Barrier::new(2)));
            let its_steps = Arc::clone(&steps);
            let thread = std::thread::spawn(move || {
                assert_eq!(scheduling::policy(), libc::SCHED_OTHER);
                helper.follow();
                assert_eq!(scheduling::policy(), policy);
                its_steps.wait();
                its_steps.wait();
                assert_eq!(scheduling::policy() & libc::SCHED_FIFO, 0);
                helper.follow();
                assert_eq!(scheduling::policy() & libc::SCHED_FIFO, 0);
            });
            steps.wait();
            boost.end();
            steps.wait();
            thread.join().unwrap();
            assert_eq!(scheduling::policy() & libc::SCHED_FIFO, 0);
            assert_eq!(boosted.priority(), 0);
            assert!(boosted.helpers().is_empty());
            boost.update(true);
            assert_eq!(scheduling::policy() & libc::SCHED_FIFO, 0);
        });
    }

    #[test]
    fn a_receiver_of_real_time_threads_stays_one() {
        on_a_thread(|| {
            let mut boost = LateBoost::new(Some(1));
            let probe = std::thread::spawn(|| scheduling::make_realtime(1).is_ok());
            let allowed = probe.join().unwrap();
            for is_late in [false, true, false] {
                boost.update(is_late);
                let is_realtime = scheduling::policy() & libc::SCHED_FIFO != 0;
                assert_eq!(is_realtime, allowed);
            }
            assert_eq!(boost.boosted().priority(), 1);
        });
    }
}
