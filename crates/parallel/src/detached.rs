//! [`DetachedCalls`]: runs calls that may never return on threads that can be abandoned.
//!
//! Reading a file that another process serves (FUSE, network) may block forever, and no signal ends
//! the wait. Therefore a separate thread makes such a call, with a timeout. If the call times out,
//! its thread is abandoned, and ends when the call returns.
//!
//! Each call has a key, such as a user id. A key with too many hanging threads gets no
//! further calls until one returns. Other keys are not affected, unless the total limit is reached.
//!
//! ```
//! use rprof_parallel::{DetachedCalls, NoAnswer};
//! use std::time::{Duration, Instant};
//!
//! let calls = DetachedCalls::new("doc", 1, 8);
//! let soon = || Instant::now() + Duration::from_millis(50);
//! assert_eq!(calls.call(7, Instant::now() + Duration::from_secs(60), || 6 * 7), Ok(42));
//! let forever = || std::thread::sleep(Duration::from_secs(1 << 30));
//! assert_eq!(calls.call(7, soon(), forever), Err(NoAnswer::InTime));
//! assert_eq!(calls.call(7, soon(), || ()), Err(NoAnswer::AsOthersHang));
//! assert_eq!(calls.call(8, Instant::now() + Duration::from_secs(60), || 1), Ok(1));
//! ```

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// Runs calls on threads that can be abandoned. Waits for one call at a time, and reuses threads
/// that return in time.
#[derive(Debug)]
pub struct DetachedCalls {
    name: &'static str,
    /// Limits on hanging threads, per key and in total.
    most_of_one: usize,
    most_of_all: usize,
    idle: Mutex<Option<SyncSender<Job>>>,
    hanging: Arc<Mutex<HashMap<u32, usize>>>,
}

type Job = Box<dyn FnOnce() + Send>;

/// Reason why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The call timed out. It continues in the background.
    InTime,
    /// The call did not start: too many other calls hang.
    AsOthersHang,
    /// The call did not start: the system refused a thread.
    WithoutThread,
    /// The call panicked.
    Panicked,
}

/// State of a call, decided once: it returned, or the caller abandoned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Returned,
    LeftBehind,
}

/// Marks a call as returned on drop, even if it panicked.
struct Back {
    state: Arc<Mutex<State>>,
    hanging: Arc<Mutex<HashMap<u32, usize>>>,
    key: u32,
}

impl Drop for Back {
    fn drop(&mut self) {
        let mut state = locked(&self.state);
        if *state == State::LeftBehind {
            let mut hanging = locked(&self.hanging);
            if let Some(count) = hanging.get_mut(&self.key) {
                *count -= 1;
            }
            hanging.retain(|_, count| *count > 0);
        }
        *state = State::Returned;
    }
}

impl DetachedCalls {
    /// Creates an instance without starting threads of this name. At most `most_of_one` threads may
    /// hang per key, and `most_of_all` in total.
    #[must_use]
    pub fn new(name: &'static str, most_of_one: usize, most_of_all: usize) -> Self {
        Self {
            name,
            most_of_one,
            most_of_all,
            idle: Mutex::default(),
            hanging: Arc::default(),
        }
    }

    /// Makes a call for a key, and waits for its result until the deadline.
    ///
    /// # Errors
    /// Fails with [`NoAnswer`].
    pub fn call<R: Send + 'static>(
        &self,
        key: u32,
        until: Instant,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, NoAnswer> {
        if self.is_hanging(key) {
            return Err(NoAnswer::AsOthersHang);
        }
        let (sender, answer) = sync_channel(1);
        let state = Arc::new(Mutex::new(State::Running));
        let hanging = Arc::clone(&self.hanging);
        let of_thread = Arc::clone(&state);
        let job: Job = Box::new(move || {
            let back = Back {
                state: of_thread,
                hanging,
                key,
            };
            let result = call();
            // Sent before the state changes, so a reader of the state finds it.
            let _ = sender.try_send(result);
            drop(back);
        });
        let thread = self.start(job).ok_or(NoAnswer::WithoutThread)?;
        let wait = until.saturating_duration_since(Instant::now());
        let result = match answer.recv_timeout(wait) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Disconnected) => Err(NoAnswer::Panicked),
            Err(RecvTimeoutError::Timeout) => {
                let mut state = locked(&state);
                match *state {
                    // It returned at the last moment.
                    State::Returned => answer.try_recv().map_err(|_| NoAnswer::Panicked),
                    State::Running | State::LeftBehind => {
                        *state = State::LeftBehind;
                        *locked(&self.hanging).entry(key).or_default() += 1;
                        Err(NoAnswer::InTime)
                    }
                }
            }
        };
        if result.is_ok() {
            *locked(&self.idle) = Some(thread);
        }
        result
    }

    /// Returns true if new calls for this key fail because too many hang.
    #[must_use]
    pub fn is_hanging(&self, key: u32) -> bool {
        let hanging = locked(&self.hanging);
        let of_one = hanging.get(&key).copied().unwrap_or(0);
        let of_all: usize = hanging.values().sum();
        of_one >= self.most_of_one || of_all >= self.most_of_all
    }

    /// Runs the job on the idle thread or a new one. Returns its queue. Dropping that ends the
    /// thread.
    fn start(&self, job: Job) -> Option<SyncSender<Job>> {
        let idle = locked(&self.idle).take();
        let job = match idle {
            Some(thread) => match thread.try_send(job) {
                Ok(()) => return Some(thread),
                // It panicked.
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => job,
            },
            None => job,
        };
        let (sender, jobs): (SyncSender<Job>, Receiver<Job>) = sync_channel(1);
        let thread = Builder::new().name(self.name.into());
        let work = move || jobs.into_iter().for_each(|job| job());
        thread.spawn(work).ok()?;
        sender.try_send(job).ok()?;
        Some(sender)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn one_thread_makes_all_calls_that_return() {
        let calls = DetachedCalls::new("t", 1, 1);
        let id = || std::thread::current().id();
        let first = calls.call(1, late(), id).unwrap();
        for user in 0..100 {
            assert_eq!(calls.call(user, late(), id), Ok(first));
        }
        assert_ne!(first, id());
    }

    #[test]
    fn who_hangs_is_not_called_for_until_they_are_back_and_others_are() {
        let calls = DetachedCalls::new("t", 2, 3);
        let (go_on, wait) = sync_channel::<()>(0);
        let wait = Arc::new(Mutex::new(wait));
        let hang = || {
            let wait = Arc::clone(&wait);
            move || {
                // Sent or disconnected: both end the wait.
                let _ = locked(&wait).recv();
            }
        };
        for _ in 0..2 {
            assert_eq!(calls.call(1, soon(), hang()), Err(NoAnswer::InTime));
        }
        assert_eq!(calls.call(1, late(), || 1), Err(NoAnswer::AsOthersHang));
        assert_eq!(calls.call(2, late(), || 2), Ok(2));
        assert_eq!(calls.call(2, soon(), hang()), Err(NoAnswer::InTime));
        // The total limit is reached.
        assert_eq!(calls.call(3, late(), || 3), Err(NoAnswer::AsOthersHang));
        drop(go_on);
        let until = late();
        // Each of the three returns at its own time; below the limits some may still hang.
        while !locked(&calls.hanging).is_empty() {
            assert!(Instant::now() < until, "some did not come back");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!calls.is_hanging(1) && !calls.is_hanging(3));
        assert_eq!(calls.call(1, late(), || 1), Ok(1));
    }

    #[test]
    fn a_call_that_panics_is_no_answer_and_the_next_one_is_made() {
        let calls = DetachedCalls::new("t", 8, 8);
        // Avoids the backtrace and the message of the panic hook.
        let quiet = || std::panic::resume_unwind(Box::new("made up"));
        let panicked = calls.call::<()>(1, late(), quiet);
        assert_eq!(panicked, Err(NoAnswer::Panicked));
        assert_eq!(calls.call(1, late(), || 5), Ok(5));
    }
}
