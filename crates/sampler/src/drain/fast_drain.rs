//! [`FastDrain`]: more frequent reads for a while.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::wakeup::WakeupFlag;

/// Maximum interval: later the memory of a process has mostly changed.
const LONGEST: Duration = Duration::from_millis(5);

/// Factor of the interval for relaxed requests: 32 ms with the default interval.
const RELAXED: u32 = 16;

/// Number of CPUs above which the interval grows: one thread receives all messages.
const FEW: u32 = 64;

/// Maximum number of CPUs if the receiver drains all rings and copies all data.
const MAX_REMOTE: usize = 16;

/// Makes every drain thread, while active, empty its rings at the interval
/// [`DrainOptions::fast`](crate::DrainOptions::fast), so that the receiver sees each sample soon.
/// Otherwise it waits until a quarter of a ring is full, or for
/// [`DrainOptions::idle`](crate::DrainOptions::idle).
///
/// A pinned drain thread preempts the workload on its CPU. On few CPUs the receiver can [drain the
/// rings instead](crate::RemoteDrain), from any idle CPU.
///
/// Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct FastDrain {
    /// Nanoseconds of CLOCK_MONOTONIC.
    until: Arc<AtomicU64>,
    relaxed_until: Arc<AtomicU64>,
    /// Raised at the beginning, one for each thread.
    wakeups: Arc<[WakeupFlag]>,
    interval: Duration,
    /// True if the receiver drains instead of the threads.
    is_remote: Arc<AtomicBool>,
}

impl FastDrain {
    /// Creates an inactive one for `threads` threads. `interval` applies if they are few.
    ///
    /// # Errors
    /// If no eventfd is available.
    pub(crate) fn new(threads: usize, interval: Duration) -> io::Result<FastDrain> {
        let wakeups: Result<Vec<WakeupFlag>, _> = (0..threads).map(|_| WakeupFlag::new()).collect();
        Ok(FastDrain {
            until: Arc::default(),
            relaxed_until: Arc::default(),
            wakeups: wakeups?.into(),
            interval: interval_for(threads, interval),
            is_remote: Arc::default(),
        })
    }

    /// Creates one without threads, for batches that no session sends.
    pub fn detached() -> FastDrain {
        FastDrain {
            until: Arc::default(),
            relaxed_until: Arc::default(),
            wakeups: Arc::new([]),
            interval: LONGEST,
            is_remote: Arc::default(),
        }
    }

    /// Drains fast until `time`, in ns of CLOCK_MONOTONIC. Requests never shorten it.
    pub fn request_until(&self, time: u64) {
        let before = self.until.fetch_max(time, Ordering::Relaxed);
        let is_remote = self.is_remote.load(Ordering::Relaxed);
        if !is_remote && before < time && before < monotonic_ns() {
            self.wakeups.iter().for_each(WakeupFlag::raise);
        }
    }

    /// Like [`request_until`](Self::request_until), but also wakes the drain threads if the
    /// receiver drains instead. Their messages inform the receiver.
    pub fn begin_until(&self, time: u64) {
        let before = self.until.fetch_max(time, Ordering::Relaxed);
        if before < time && before < monotonic_ns() {
            self.wakeups.iter().for_each(WakeupFlag::raise);
        }
    }

    /// Drains at a sixteenth of the speed until `time`, in ns of CLOCK_MONOTONIC, unless another
    /// request is faster. Half of the CPU time of fast draining is for wake-ups.
    pub fn request_relaxed_until(&self, time: u64) {
        let before = self.relaxed_until.fetch_max(time, Ordering::Relaxed);
        let is_remote = self.is_remote.load(Ordering::Relaxed);
        if !is_remote && before < time && before < monotonic_ns() && !self.is_fast() {
            self.wakeups.iter().for_each(WakeupFlag::raise);
        }
    }

    /// Returns the sleep between two receives: half of the interval, so that batches do not age.
    /// `None` while inactive: blocking is then cheaper.
    pub fn poll_interval(&self) -> Option<Duration> {
        Some(self.active_interval()? / 2)
    }

    fn active_interval(&self) -> Option<Duration> {
        match (self.is_fast(), self.is_active()) {
            (true, _) => Some(self.interval),
            (false, true) => Some(self.interval * RELAXED),
            (false, false) => None,
        }
    }

    pub(super) fn wakeup(&self, thread: usize) -> Option<&WakeupFlag> {
        self.wakeups.get(thread)
    }

    /// Lets the receiver drain instead, if the CPUs are few enough.
    pub(super) fn leave_to_receiver(&self, cpus: usize) -> bool {
        let can = cpus <= MAX_REMOTE;
        self.is_remote.store(can, Ordering::Relaxed);
        can
    }

    pub(super) fn hurries(&self) -> bool {
        !self.is_remote.load(Ordering::Relaxed) && self.is_active()
    }

    pub(super) fn timeout(&self, idle: Duration) -> Duration {
        match self.hurries() {
            true => self.active_interval().unwrap_or(idle).min(idle),
            false => idle,
        }
    }

    /// Returns true until the requested times.
    pub fn is_active(&self) -> bool {
        self.is_fast() || is_before(&self.relaxed_until)
    }

    fn is_fast(&self) -> bool {
        is_before(&self.until)
    }
}

fn is_before(until: &AtomicU64) -> bool {
    let until = until.load(Ordering::Relaxed);
    until != 0 && monotonic_ns() < until
}

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
        fast.request_until(now + 2_000_000_000_000);
        assert!(!wakes(0) && !wakes(1));
        assert!(!fast.leave_to_receiver(MAX_REMOTE + 1) && fast.hurries());
        assert!(fast.leave_to_receiver(MAX_REMOTE) && !fast.hurries());
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
