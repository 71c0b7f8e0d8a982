//! [`OverflowSignals`]: waits on a thread for overflow signals sent to it.

use super::info::{Overflow, SignalInfo};
use crate::errno::{self, Errno};
use crate::fd::PerfFd;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Receiver of overflow signals, for the thread that created it.
///
/// The signal is blocked for this thread, and [`wait`](Self::wait) receives it. So no handler
/// interrupts the program. Real-time signals queue, one for each overflow. At most one SIGIO is
/// pending.
///
/// ```no_run
/// use rprof_perf_event::{Builder, OverflowSignals, Software};
/// use std::time::Duration;
///
/// let faults = Builder::software(Software::PAGE_FAULTS).exclude_kernel(true).period(100).open()?;
/// let mut signals = OverflowSignals::realtime(3)?;
/// signals.watch(faults.fd())?;
/// faults.fd().refresh(1)?;
/// let bytes = vec![1_u8; 1 << 20];
/// let overflow = signals.wait(Some(Duration::from_secs(1)))?;
/// println!("{overflow:?} for {} bytes", bytes.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OverflowSignals {
    signal: i32,
    before: SignalSet,
    /// Descriptors of all events with signals to this receiver.
    watched: Vec<OwnedFd>,
    /// Not `Send`: a signal mask belongs to its thread.
    of_this_thread: PhantomData<*const ()>,
}

#[derive(Clone, Copy)]
struct SignalSet(libc::sigset_t);

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalSet")
    }
}

impl SignalSet {
    fn of(signals: &[i32]) -> SignalSet {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: sigemptyset initialises the set; sigaddset refuses invalid numbers.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            SignalSet(set.assume_init())
        }
    }

    /// Changes this thread's mask, and returns the previous one.
    fn change(&self, how: i32) -> Result<SignalSet, Errno> {
        let mut before = SignalSet::of(&[]);
        // SAFETY: both sets are initialised.
        match unsafe { libc::pthread_sigmask(how, &self.0, &mut before.0) } {
            0 => Ok(before),
            number => Err(Errno::from_raw_os_error(number)),
        }
    }
}

impl OverflowSignals {
    /// Receives SIGIO.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn io() -> Result<OverflowSignals, Errno> {
        OverflowSignals::block(libc::SIGIO)
    }

    /// Receives the signal `SIGRTMIN + number`.
    ///
    /// # Errors
    /// Returns `EINVAL` beyond `SIGRTMAX`.
    pub fn realtime(number: u8) -> Result<OverflowSignals, Errno> {
        let signal = libc::SIGRTMIN() + i32::from(number);
        if signal > libc::SIGRTMAX() {
            return Err(Errno::INVAL);
        }
        OverflowSignals::block(signal)
    }

    fn block(signal: i32) -> Result<OverflowSignals, Errno> {
        // SIGIO replaces other signals if too many are queued.
        let before = SignalSet::of(&[signal, libc::SIGIO]).change(libc::SIG_BLOCK)?;
        Ok(OverflowSignals {
            signal,
            before,
            watched: Vec::new(),
            of_this_thread: PhantomData,
        })
    }

    /// Returns the number of the signal.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Makes an event send the signal to this thread at each overflow (`F_SETSIG`, `F_SETOWN_EX`
    /// and `O_ASYNC` of fcntl(2)). The receiver keeps the event open.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn watch(&mut self, event: &PerfFd) -> Result<(), Errno> {
        let copy = event.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let fd = event.as_fd().as_raw_fd();
        let owner = OwnerEx {
            kind: F_OWNER_TID,
            id: rustix::thread::gettid().as_raw_nonzero().get(),
        };
        // SAFETY: the descriptor is open, the arguments are a number and a struct that the kernel
        // reads.
        unsafe {
            check(libc::fcntl(fd, F_SETSIG, self.signal))?;
            check(libc::fcntl(fd, F_SETOWN_EX, &raw const owner))?;
        }
        self.watched.push(copy);
        set_async(fd, true)
    }

    /// Waits for the next overflow, at most for `timeout`; without a timeout, forever. `None` if
    /// the timeout expires.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Option<Overflow>, Errno> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.take(deadline)? {
                Some(SignalInfo::Overflow(overflow)) => return Ok(Some(overflow)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn take(&self, deadline: Option<Instant>) -> Result<Option<SignalInfo>, Errno> {
        let set = SignalSet::of(&[self.signal, libc::SIGIO]);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.map(|left| libc::timespec {
                // musl's `time_t` is deprecated until its width is the kernel's everywhere.
                tv_sec: i32::try_from(left.as_secs()).unwrap_or(i32::MAX).into(),
                tv_nsec: libc::c_long::from(left.subsec_nanos() as i32),
            });
            let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: the set is initialised; the kernel fills `info`, and reads the time if there
            // is one.
            let signal = unsafe { libc::sigtimedwait(&set.0, info.as_mut_ptr(), timeout) };
            if signal > 0 {
                // SAFETY: the kernel has filled it; all bytes were zero before.
                let info = unsafe { info.assume_init() };
                return Ok(Some(SignalInfo::from_siginfo(&info)));
            }
            match errno::last() {
                Errno::AGAIN => return Ok(None),
                Errno::INTR => {}
                errno => return Err(errno),
            }
        }
    }
}

impl Drop for OverflowSignals {
    fn drop(&mut self) {
        for fd in &self.watched {
            // Fails only for a closed event.
            let _ = set_async(fd.as_raw_fd(), false);
        }
        // Pending signals would end the process once unblocked.
        let now = Some(Instant::now());
        while let Ok(Some(_)) = self.take(now) {}
        let _ = self.before.change(libc::SIG_SETMASK);
    }
}

/// Numbers of asm-generic/fcntl.h, missing in libc for some targets.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;

#[repr(C)]
struct OwnerEx {
    kind: i32,
    id: i32,
}

fn set_async(fd: i32, on: bool) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, the arguments are numbers.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        let flags = match on {
            true => flags | libc::O_ASYNC | libc::O_NONBLOCK,
            false => flags & !libc::O_ASYNC,
        };
        check(libc::fcntl(fd, libc::F_SETFL, flags))?;
    }
    Ok(())
}

fn check(result: i32) -> Result<i32, Errno> {
    match result {
        0.. => Ok(result),
        _ => Err(errno::last()),
    }
}
