//! [`FastDrain`]: a time in which drain threads look at their rings more often.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::wakeup::WakeupFlag;

/// One interval for any number of CPUs: memory of a process that is looked at later is another's, mostly.
const LONGEST: Duration = Duration::from_millis(5);

/// Number of CPUs from which on the interval grows with them: each look of each is a message, which one thread receives.
const FEW: u32 = 64;

/// Number of CPUs up to which the receiver can drain all rings itself: it copies what each of them has.
const MOST_REMOTE: usize = 16;

/// While active, every drain thread flushes its rings every 2 ms, or as often as [`DrainOptions::fast`](crate::DrainOptions::fast) has
/// it (up to 5 ms where there are more than 64 CPUs), so that the receiver sees each sample soon after it was taken. Otherwise a thread waits until a quarter of a ring is full, or
/// for [`DrainOptions::idle`](crate::DrainOptions::idle).
///
/// A drain thread is bound to its CPU, and so preempts what is watched there each time. On few CPUs the receiver can
/// [drain the rings in their place](crate::RemoteDrain), from whichever CPU is idle.
///
/// Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct FastDrain {
    /// The end of it, in nanoseconds of CLOCK_MONOTONIC.
    until: Arc<AtomicU64>,
    /// One for each thread, raised when it begins.
    wakeups: Arc<[WakeupFlag]>,
    interval: Duration,
    /// True if the receiver drains while this is active, so that the threads need not hurry.
    is_remote: Arc<AtomicBool>,
}

impl FastDrain {
    /// Makes one for so many threads, not active, of which each looks after `interval` if they are few.
    ///
    /// # Errors
    /// When the system gives no eventfd.
    pub(crate) fn new(threads: usize, interval: Duration) -> io::Result<FastDrain> {
        let wakeups: Result<Vec<WakeupFlag>, _> = (0..threads).map(|_| WakeupFlag::new()).collect();
        Ok(FastDrain {
            until: Arc::default(),
            wakeups: wakeups?.into(),
            interval: interval_for(threads, interval),
            is_remote: Arc::default(),
        })
    }

    /// Makes one for no thread: batches that no session sends.
    pub fn detached() -> FastDrain {
        FastDrain {
            until: Arc::default(),
            wakeups: Arc::new([]),
            interval: LONGEST,
            is_remote: Arc::default(),
        }
    }

    /// Drains fast until `time`, in nanoseconds of CLOCK_MONOTONIC. A time before the one that was
    /// requested last changes nothing.
    pub fn request_until(&self, time: u64) {
        let before = self.until.fetch_max(time, Ordering::Relaxed);
        let is_remote = self.is_remote.load(Ordering::Relaxed);
        if !is_remote && before < time && before < monotonic_ns() {
            self.wakeups.iter().for_each(WakeupFlag::raise);
        }
    }

    /// Drains fast until `time`, as [`request_until`](Self::request_until) does, and wakes the drain threads also where the receiver drains in their place: each
    /// sends it a message, by which it learns of it.
    pub fn begin_until(&self, time: u64) {
        let before = self.until.fetch_max(time, Ordering::Relaxed);
        if before < time && before < monotonic_ns() {
            self.wakeups.iter().for_each(WakeupFlag::raise);
        }
    }

    /// Returns how long a receiver had better sleep between two looks at the channel: half of the
    /// drain threads' interval, since a batch that is received late is looked at late. `None` while
    /// not active: then blocking on the channel costs less.
    pub fn poll_interval(&self) -> Option<Duration> {
        self.is_active().then_some(self.interval / 2)
    }

    /// Returns the flag that tells thread number `thread` that fast draining begins.
    pub(super) fn wakeup(&self, thread: usize) -> Option<&WakeupFlag> {
        self.wakeups.get(thread)
    }

    /// Leaves the draining to the receiver while this is active, if it can do that for so many CPUs.
    pub(super) fn leave_to_receiver(&self, cpus: usize) -> bool {
        let can = cpus <= MOST_REMOTE;
        self.is_remote.store(can, Ordering::Relaxed);
        can
    }

    /// Returns whether drain threads hurry.
    pub(super) fn hurries(&self) -> bool {
        !self.is_remote.load(Ordering::Relaxed) && self.is_active()
    }

    /// Returns how long a drain thread waits at most where it would be `idle` otherwise.
    pub(super) fn timeout(&self, idle: Duration) -> Duration {
        match self.hurries() {
            true => self.interval.min(idle),
            false => idle,
        }
    }

    /// Returns whether the requested time is not over.
    pub fn is_active(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until != 0 && monotonic_ns() < until
    }
}

/// Returns the time between two looks of so many threads.
fn interval_for(threads: usize, interval: Duration) -> Duration {
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let grown = interval.saturating_mul(threads.clamp(FEW, FEW << 8)) / FEW;
    grown.min(LONGEST.max(interval))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::{readable, wait};
    use std::os::fd::AsFd;

    #[test]
    fn many_threads_look_less_often() {
        let looks = |threads| interval_for(threads, Duration::from_millis(2)).as_micros();
        assert_eq!((looks(1), looks(64), looks(96)), (2000, 2000, 3000));
        assert_eq!((looks(256), looks(usize::MAX)), (5000, 5000));
        let slow = Duration::from_millis(10);
        assert_eq!(
            (interval_for(1, slow), interval_for(256, slow)),
            (slow, slow)
        );
    }

    #[test]
    fn ends_when_its_time_is_over() {
        const INTERVAL: Duration = Duration::from_millis(2);
        let fast = FastDrain::new(2, INTERVAL).unwrap();
        let idle = Duration::from_millis(100);
        let wakes = |thread| {
            let flag = fast.wakeup(thread).unwrap();
            let wakes = wait(&mut [readable(flag.as_fd())], Some(Duration::ZERO)).unwrap() == 1;
            flag.lower();
            wakes
        };
        assert_eq!((fast.timeout(idle), wakes(0)), (idle, false));
        let now = monotonic_ns();
        fast.request_until(now + 1_000_000_000_000);
        assert_eq!(
            (fast.timeout(idle), wakes(0), wakes(1)),
            (INTERVAL, true, true)
        );
        assert_eq!(fast.timeout(Duration::ZERO), Duration::ZERO);
        assert_eq!(fast.poll_interval(), Some(INTERVAL / 2));
        // Going on needs no wake-up.
        fast.request_until(now + 2_000_000_000_000);
        assert!(!wakes(0) && !wakes(1));
        // Threads whose rings the receiver drains do not hurry, and it looks as often.
        assert!(!fast.leave_to_receiver(MOST_REMOTE + 1) && fast.hurries());
        assert!(fast.leave_to_receiver(MOST_REMOTE) && !fast.hurries());
        assert_eq!(
            (fast.timeout(idle), fast.poll_interval()),
            (idle, Some(INTERVAL / 2))
        );
        let remote = FastDrain::new(2, INTERVAL).unwrap();
        remote.leave_to_receiver(2);
        remote.request_until(now + 1_000_000_000_000);
        let is_woken = |fast: &FastDrain| {
            let flag = fast.wakeup(0).unwrap();
            wait(&mut [readable(flag.as_fd())], Some(Duration::ZERO)).unwrap() == 1
        };
        assert!(!is_woken(&remote));
        let remote = FastDrain::new(2, INTERVAL).unwrap();
        remote.leave_to_receiver(2);
        remote.begin_until(now + 1_000_000_000_000);
        assert!(is_woken(&remote) && remote.is_active() && !remote.hurries());
        let over = FastDrain::new(1, INTERVAL).unwrap();
        over.request_until(now);
        assert_eq!((over.timeout(idle), over.poll_interval()), (idle, None));
        assert!(over.wakeup(1).is_none());
    }
}
