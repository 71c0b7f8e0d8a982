//! Signals that end the agent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level::pipe};

/// The first SIGTERM, SIGINT or SIGHUP makes [`fd`](Self::fd) readable. The second ends the
/// process.
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// An ignored SIGHUP stays ignored, as nohup(1) needs it. A shell without job control ignores
    /// SIGINT for `&`.
    pub(crate) fn listen() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            if signal == SIGHUP && rprof_launch::signal_is_ignored(signal) {
                continue;
            }
            // In this order: the flag is checked before it is set.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&second))?;
            flag::register(signal, Arc::clone(&second))?;
            pipe::register(signal, waker.try_clone()?)?;
        }
        // A write beyond `ulimit -f` fails instead of ending the agent.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(Signals(wake))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
