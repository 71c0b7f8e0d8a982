//! Ctrl-C and its kin while recording.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};

/// Signals to a recording. The first of those that end it asks for it; a second one ends
/// rprof at once, and the file then holds what was written.
pub(crate) struct Signals {
    wake: UnixStream,
    waker: UnixStream,
    last: Arc<AtomicUsize>,
    switch: Arc<AtomicBool>,
}

impl Signals {
    /// Listens from now on; to SIGUSR2 only `with_switch`.
    pub(crate) fn listen(with_switch: bool) -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Whoever started us with a signal ignored (nohup, a shell's background
            // job) meant the command as well; a handler would undo that.
            if rprof_sampler::signal_is_ignored(signal) {
                continue;
            }
            // In this order: the check comes before the flag is set.
            let status = 128 + signal;
            signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&second))?;
            signal_hook::flag::register(signal, Arc::clone(&second))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        let switch = Arc::new(AtomicBool::new(false));
        if with_switch {
            signal_hook::flag::register(SIGUSR2, Arc::clone(&switch))?;
            signal_hook::low_level::pipe::register(SIGUSR2, waker.try_clone()?)?;
        }
        Ok(Signals {
            wake,
            waker,
            last,
            switch,
        })
    }

    /// Readable once a signal came, or somebody wrote to [`waker`](Self::waker).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What others wake us with.
    pub(crate) fn waker(&self) -> io::Result<UnixStream> {
        self.waker.try_clone()
    }

    /// Is not readable any more until the next signal comes.
    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    /// The signal to end that came last.
    pub(crate) fn last(&self) -> Option<i32> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Whether SIGUSR2 came since this was asked.
    pub(crate) fn take_switch(&self) -> bool {
        self.switch.swap(false, Ordering::SeqCst)
    }
}
