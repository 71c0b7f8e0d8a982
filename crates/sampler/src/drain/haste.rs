//! [`Haste`]: when drain threads are to look at their rings more often.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::{self, Flag};

/// Longest time between two looks at a ring in haste.
const LOOKS: Duration = Duration::from_millis(2);

/// Has all drain threads hand on what there is every two milliseconds for some time, so that whoever
/// takes the samples knows of each soon after it was taken. Otherwise they wait until a quarter of a ring
/// is full, or for [`DrainOptions::idle`](crate::DrainOptions::idle).
///
/// Cheap to clone: all clones are one.
#[derive(Clone, Debug)]
pub struct Haste {
    /// The end of it, in nanoseconds of CLOCK_MONOTONIC.
    until: Arc<AtomicU64>,
    /// Raised for each thread when it begins.
    bells: Arc<[Flag]>,
}

impl Haste {
    /// For so many threads.
    ///
    /// # Errors
    /// When the system gives no eventfd.
    pub(crate) fn new(threads: usize) -> io::Result<Haste> {
        let bells: Result<Vec<Flag>, _> = (0..threads).map(|_| Flag::new()).collect();
        Ok(Haste {
            until: Arc::default(),
            bells: bells?.into(),
        })
    }

    /// Makes haste until `time`, in nanoseconds of CLOCK_MONOTONIC. An earlier time than one that was
    /// said before changes nothing.
    pub fn until(&self, time: u64) {
        let before = self.until.fetch_max(time, Ordering::Relaxed);
        if before < time && before < sys::monotonic_ns() {
            self.bells.iter().for_each(Flag::raise);
        }
    }

    /// How long whoever takes the batches had better leave them alone: half as long as drain threads do between
    /// two looks, since what is taken late is looked at late. `None` while they do not hurry, when to wait for a
    /// batch costs less.
    pub fn pause(&self) -> Option<Duration> {
        self.is_on().then_some(LOOKS / 2)
    }

    /// What tells thread number `thread` that it begins.
    pub(super) fn bell(&self, thread: usize) -> Option<&Flag> {
        self.bells.get(thread)
    }

    /// How long to wait at most where it would be `idle` otherwise.
    pub(super) fn wait(&self, idle: Duration) -> Duration {
        match self.is_on() {
            true => LOOKS.min(idle),
            false => idle,
        }
    }

    /// Whether its time is not over.
    pub(super) fn is_on(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until != 0 && sys::monotonic_ns() < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_when_its_time_is_over() {
        let haste = Haste::new(2).unwrap();
        let idle = Duration::from_millis(100);
        let rings = |thread| {
            let bell = haste.bell(thread).unwrap();
            let mut fds = [sys::readable(bell.fd())];
            let rings = sys::poll(&mut fds, Some(Duration::ZERO)).unwrap() == 1;
            bell.lower();
            rings
        };
        assert_eq!((haste.wait(idle), rings(0)), (idle, false));
        let now = sys::monotonic_ns();
        haste.until(now + 1_000_000_000_000);
        assert_eq!((haste.wait(idle), rings(0), rings(1)), (LOOKS, true, true));
        assert_eq!(haste.wait(Duration::ZERO), Duration::ZERO);
        assert_eq!(haste.pause(), Some(LOOKS / 2));
        // It goes on, which needs no bell.
        haste.until(now + 2_000_000_000_000);
        assert!(!rings(0) && !rings(1));
        let over = Haste::new(1).unwrap();
        over.until(now);
        assert_eq!((over.wait(idle), over.pause()), (idle, None));
        assert!(over.bell(1).is_none());
    }
}
