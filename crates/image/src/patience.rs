//! [`PatientCalls`]: reads of untrusted files and memory, with timeouts.

use crate::allowance::{Allowances, Rate};
use rprof_launch::procfs::Procfs;
use rprof_parallel::DetachedCalls;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of hanging threads per user, and in total.
const MAX_HANGING: (usize, usize) = (2, 16);

/// Timeouts for reading files and memory of untrusted processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Timeout of one call.
    pub of_one: Duration,
    /// Calls up to this duration cost no allowance. Existing files take no longer, even on a busy
    /// machine.
    pub free: Duration,
    /// Allowance of waiting time per user, in nanoseconds.
    pub of_user: Rate,
    /// Allowance of waiting time for all users together, in nanoseconds.
    pub of_all: Rate,
}

/// Runs calls that may block forever, such as reads from another user's file system.
///
/// Each call has its own thread, which is [left behind](DetachedCalls) at the timeout. Calls for a
/// user are refused after too much waiting, until the allowance refills. Other users are not
/// affected.
///
/// ```
/// use rprof_image::{PatientCalls, Patience, Rate};
/// use std::time::Duration;
///
/// let rate = Rate { most: 1_000_000_000, a_second: 10_000_000 };
/// let (of_one, free) = (Duration::from_secs(60), Duration::from_secs(1));
/// let patience = Patience { of_one, free, of_user: rate, of_all: rate };
/// let calls = PatientCalls::new("doc", patience);
/// assert_eq!(calls.call(1000, || 6 * 7), Some(42));
/// assert_eq!(calls.refused(), 0);
/// ```
#[derive(Debug)]
pub struct PatientCalls {
    calls: DetachedCalls,
    patience: Patience,
    waited: Mutex<Allowances>,
    begin: Instant,
    refused: AtomicU64,
}

impl PatientCalls {
    /// Prepares calls on threads with this name. Starts no thread.
    #[must_use]
    pub fn new(name: &'static str, patience: Patience) -> Self {
        let (of_one, of_all) = MAX_HANGING;
        Self {
            calls: DetachedCalls::new(name, of_one, of_all),
            patience,
            waited: Mutex::new(Allowances::new(patience.of_user, patience.of_all)),
            begin: Instant::now(),
            refused: AtomicU64::new(0),
        }
    }

    /// Makes a call on behalf of a user. `None` if it timed out or was refused.
    pub fn call<R: Send + 'static>(
        &self,
        user: u32,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        self.call_within(user, self.patience.of_one, call)
    }

    /// Makes a [`call`](Self::call) with a shorter timeout.
    pub fn call_within<R: Send + 'static>(
        &self,
        user: u32,
        most: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let key = user.cast_signed();
        let began = self.begin.elapsed();
        let now = nanoseconds(began);
        let waited = || self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let left = Duration::from_nanos(waited().at(key, now)).min(most);
        let answer = match left.is_zero() {
            true => None,
            false => (self.calls).call(user, Instant::now() + left, call).ok(),
        };
        let spent = self.begin.elapsed().saturating_sub(began);
        if spent > self.patience.free {
            waited().spend(key, nanoseconds(spent), now);
        }
        if answer.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Returns the number of timed-out and refused calls.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the real user id of a process, which it cannot choose. 65534 (nobody) if it is gone.
    #[must_use]
    pub fn user_of(pid: u32) -> u32 {
        let status = Procfs::default().status(pid);
        let users = status.and_then(|status| status.users);
        users.map_or(65534, |[real, ..]| real)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn who_takes_too_long_is_not_waited_for_and_others_are() {
        let patience = Patience {
            of_one: Duration::from_millis(20),
            free: Duration::ZERO,
            of_user: Rate {
                most: 20 * MILLISECOND,
                a_second: 0,
            },
            of_all: Rate {
                most: 3_600_000 * MILLISECOND,
                a_second: 0,
            },
        };
        let calls = PatientCalls::new("t", patience);
        let (go_on, wait) = sync_channel::<()>(0);
        assert_eq!(calls.call(1, move || wait.recv().is_ok()), None);
        drop(go_on);
        assert_eq!(calls.call(1, || 1), None);
        let long = Duration::from_secs(3600);
        assert_eq!(calls.call_within(2, long, || 2), Some(2));
        assert_eq!(calls.refused(), 2);
    }

    #[test]
    fn users_of_processes() {
        let us = rustix::process::getuid().as_raw();
        assert_eq!(PatientCalls::user_of(std::process::id()), us);
        assert_eq!(PatientCalls::user_of(u32::MAX), 65534);
    }
}
