//! Handles SIGINT, SIGTERM, SIGHUP and SIGUSR2 while recording.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ};

/// Makes a write beyond `ulimit -f` fail instead of killing this process. Installs a handler,
/// because children inherit an ignored signal.
pub(crate) fn survive_file_size_limit() {
    if !rprof_launch::signal_is_ignored(SIGXFSZ) {
        // On failure the default action stays.
        signal_hook::flag::register(SIGXFSZ, Arc::default()).ok();
    }
}

/// The first SIGINT, SIGTERM or SIGHUP ends the recording. The second ends rprof, and the file
/// keeps the data so far.
pub(crate) struct Signals {
    wake: UnixStream,
    waker: UnixStream,
    last: Arc<AtomicUsize>,
    switch: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers. SIGUSR2 always has one, so that it does not kill a recording without
    /// rotation. `rotates` installs it even if SIGUSR2 is ignored. `starts_command` is true if this
    /// process starts a command, which must find the signals as this process found them.
    pub(crate) fn listen(rotates: bool, starts_command: bool) -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // nohup(1) ignores SIGHUP, and a shell without job control ignores SIGINT for `&`, for
            // the command too. A handler would undo that. Without a command, `kill -INT` in a
            // script must end the recording.
            let stays = starts_command || signal == SIGHUP;
            if stays && rprof_launch::signal_is_ignored(signal) {
                continue;
            }
            // In this order: the flag is checked before it is set.
            let status = 128 + signal;
            signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&second))?;
            signal_hook::flag::register(signal, Arc::clone(&second))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        let switch = Arc::new(AtomicBool::new(false));
        if rotates || !rprof_launch::signal_is_ignored(SIGUSR2) {
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

    /// Returns a descriptor that becomes readable with a signal, or a write to
    /// [`waker`](Self::waker).
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns a socket for other threads to wake a poll of [`fd`](Self::fd).
    pub(crate) fn waker(&self) -> io::Result<UnixStream> {
        self.waker.try_clone()
    }

    /// Empties the socket, so that [`fd`](Self::fd) blocks until the next signal.
    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    pub(crate) fn last(&self) -> Option<i32> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Returns true if SIGUSR2 came since the last call.
    pub(crate) fn take_switch(&self) -> bool {
        self.switch.swap(false, Ordering::SeqCst)
    }
}
