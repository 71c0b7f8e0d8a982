//! Ctrl-C and its kin while recording.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Signals that end a recording. The first asks for it; a second one ends rprof
/// at once, and the file then holds what was written.
pub(crate) struct StopSignals {
    wake: UnixStream,
    last: Arc<AtomicUsize>,
}

impl StopSignals {
    pub(crate) fn listen() -> io::Result<StopSignals> {
        let (wake, write) = UnixStream::pair()?;
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
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(StopSignals { wake, last })
    }

    /// Readable once a signal came.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The signal that came last.
    pub(crate) fn last(&self) -> Option<i32> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

/// Whether a Ctrl-C at the terminal reaches the command without our doing: it is
/// in our process group, and that is the one in the foreground.
pub(crate) fn terminal_signals_command() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin())
        .or_else(|_| rustix::termios::tcgetpgrp(rustix::stdio::stderr()))
        .is_ok_and(|group| group == rustix::process::getpgrp())
}
