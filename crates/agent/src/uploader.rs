//! The thread that empties a spool.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::destination::{SendOutcome, WindowDestination};
use crate::log::Log;
use crate::schedule::unix_micros;
pub use crate::sent::Sent;
use crate::spool::{Queued, Spool};

/// Delay before the second attempt. Each failure doubles it.
const FIRST: Duration = Duration::from_secs(1);

/// Maximum delay, unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(300);

/// Maximum delay that a server may ask for.
const MAX_ASKED: Duration = Duration::from_secs(3600);

/// Thread that sends files from a spool to its destination. Clones share one state.
#[derive(Clone)]
pub struct Uploader(Arc<Shared>);

struct Shared {
    name: String,
    destination: WindowDestination,
    state: Mutex<State>,
    wake: Condvar,
    log: Log,
}

struct State {
    spool: Spool,
    not_before: Instant,
    tries: u32,
    /// The newest window is sent once, then the thread ends.
    is_ending: bool,
    has_ended: bool,
    sent: Sent,
}

impl Uploader {
    /// Creates an uploader. [`start`](Uploader::start) starts sending.
    pub fn new(name: &str, destination: WindowDestination, spool: Spool, log: Log) -> Uploader {
        Uploader(Arc::new(Shared {
            name: name.to_owned(),
            destination,
            state: Mutex::new(State {
                spool,
                not_before: Instant::now(),
                tries: 0,
                is_ending: false,
                has_ended: false,
                sent: Sent::default(),
            }),
            wake: Condvar::new(),
            log,
        }))
    }

    /// Starts the thread, which runs until [`finish`](Uploader::finish) or the end of the process.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name(format!("upload-{}", shared.name));
        thread.spawn(move || shared.run()).map(drop)
    }

    /// Returns the name of the destination.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the destination.
    pub fn destination(&self) -> &WindowDestination {
        &self.0.destination
    }

    /// Calls a function with exclusive access to the spool. An upload in progress does not block
    /// it.
    pub fn with_spool<T>(&self, change: impl FnOnce(&mut Spool) -> T) -> T {
        change(&mut self.0.state().spool)
    }

    /// Announces a new window, to be sent after a delay.
    pub fn wake(&self, delay: Duration) {
        let mut state = self.0.state();
        // Queued windows are not delayed further.
        let waiting = state.spool.windows().map_or(0, |windows| windows.len());
        if state.tries == 0 && waiting < 2 {
            state.not_before = state.not_before.max(Instant::now() + delay);
        }
        drop(state);
        self.0.wake.notify_all();
    }

    /// Returns the upload counters.
    pub fn sent(&self) -> Sent {
        let state = self.0.state();
        let left = state.not_before.saturating_duration_since(Instant::now());
        Sent {
            next_try_seconds: (state.tries > 0).then_some(left.as_secs()),
            ..state.sent.clone()
        }
    }

    /// Tries once more to send the newest window, with a time limit. Afterwards the uploader sends
    /// nothing.
    pub fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = self.0.state();
        state.is_ending = true;
        self.0.wake.notify_all();
        while !state.has_ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = match self.0.wake.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

impl Shared {
    /// Locks the state, even if poisoned: the spool is on disk.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let window = match state.is_ending || now >= state.not_before {
                true => self.next_window(&state),
                false => None,
            };
            let Some(window) = window else {
                if state.is_ending {
                    break;
                }
                let wait = match state.not_before.saturating_duration_since(now) {
                    Duration::ZERO => Duration::from_secs(60),
                    wait => wait,
                };
                state = match self.wake.wait_timeout(state, wait) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                };
                continue;
            };
            let was_ending = state.is_ending;
            let (returned, goes_on) = self.send_next(state, &window);
            state = returned;
            if was_ending && !goes_on {
                break;
            }
        }
        state.has_ended = true;
        self.wake.notify_all();
    }

    /// Returns the oldest window, or the newest at the end and for servers that reject old
    /// profiles.
    fn next_window(&self, state: &State) -> Option<Queued> {
        let windows = state.spool.windows().unwrap_or_default();
        match state.is_ending || self.destination.oldest().is_some() {
            true => windows.last().cloned(),
            false => windows.first().cloned(),
        }
    }

    /// Returns whether another file may be sent immediately.
    fn send_next<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        window: &Queued,
    ) -> (MutexGuard<'s, State>, bool) {
        let next = state.spool.next_item(window).and_then(|next| match next {
            Some((name, item)) => {
                let name = state.spool.begin_sending(window, name)?;
                Ok(Some((name, item)))
            }
            None => state.spool.remove_if_empty(window).map(|_| None),
        });
        let (name, item) = match next {
            Ok(Some(next)) => next,
            Ok(None) => return (state, true),
            Err(error) => {
                self.fail(&mut state, &format!("cannot read the spool: {error}"), None);
                return (state, false);
            }
        };
        drop(state);
        // Nothing blocks during the upload.
        let outcome = self.destination.send(&item);
        let mut state = self.state();
        let goes_on = match outcome {
            SendOutcome::Sent => {
                let done = state.spool.sent(window, &name);
                let recovered = std::mem::take(&mut state.tries) > 0;
                state.sent.files += 1;
                state.sent.bytes += item.bytes.len() as u64;
                state.sent.last_success = Some(unix_micros() / 1_000_000);
                state.sent.last_error = None;
                if recovered {
                    self.log
                        .say(&format!("{}: accepts windows again", self.name));
                }
                // The window may be dropped during the upload.
                done.is_ok() || state.spool.windows().is_ok()
            }
            SendOutcome::Later { why, after } => {
                state.spool.put_back(window, &name).ok();
                self.fail(&mut state, &why, after);
                false
            }
            SendOutcome::Refused(why) => {
                self.log.say(&format!(
                    "{}: refused {} ({why}); it is in quarantine and not sent again",
                    self.name, item.name
                ));
                state.sent.refused += 1;
                state.sent.last_error = Some(why.clone());
                state.tries = 0;
                state.spool.quarantine(window, &name, &why).ok();
                true
            }
        };
        (state, goes_on)
    }

    fn fail(&self, state: &mut State, why: &str, after: Option<Duration>) {
        state.tries = state.tries.saturating_add(1);
        state.sent.failures += 1;
        let wait = wait(state.tries, after);
        state.not_before = Instant::now() + wait;
        if state.sent.last_error.as_deref() != Some(why) {
            self.log.say(&format!(
                "{}: not accepted ({why}); trying again later, with growing pauses",
                self.name
            ));
        }
        state.sent.last_error = Some(why.to_owned());
    }
}

/// Returns the delay before the next attempt: random between zero and 1 s, doubled by each failure
/// up to 5 minutes ("full jitter"), so that hosts do not retry together. A server's delay applies
/// in full.
fn wait(tries: u32, after: Option<Duration>) -> Duration {
    if let Some(after) = after {
        return after.min(MAX_ASKED);
    }
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(tries.saturating_sub(1)));
    let random = RandomState::new().hash_one(tries) >> 11;
    (doubled.min(LONGEST)).mul_f64(random as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_minutes_with_full_jitter() {
        for (tries, most) in [
            (1, 1),
            (2, 2),
            (5, 16),
            (9, 256),
            (10, 300),
            (u32::MAX, 300),
        ] {
            let waits: Vec<Duration> = (0..200).map(|_| wait(tries, None)).collect();
            let most = Duration::from_secs(most);
            assert!(waits.iter().all(|wait| *wait < most), "{tries}");
            // Each has an error probability of 7e-10.
            assert!(waits.iter().any(|wait| *wait < most / 10), "{tries}");
            assert!(waits.iter().any(|wait| *wait > most * 9 / 10), "{tries}");
        }
        assert_eq!(
            wait(1, Some(Duration::from_secs(90))),
            Duration::from_secs(90)
        );
        assert_eq!(wait(1, Some(Duration::from_secs(1 << 40))), MAX_ASKED);
    }
}
