//! The parent's handle on the program.

use super::{ExecError, exec};
use crate::errno_text::errno_from;
use crate::wait::{read_full, readable};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Between looks at a child on kernels that cannot make its end readable (before Linux 5.3).
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A process made by [`Launcher::spawn`](super::Launcher::spawn).
///
/// Until [`go`](Self::go) it blocks. Dropped before that, it is killed and reaped;
/// dropped later, the program goes on by itself.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    path: String,
    /// Present until the child was told to go.
    gate: Option<Gate>,
    pidfd: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

/// The parent's ends of the two pipes.
#[derive(Debug)]
struct Gate {
    go_write: OwnedFd,
    error_read: OwnedFd,
}

/// What [`Child::wait_or`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The program ended.
    Exited(ExitStatus),
    /// Every process or thread that was attached to has ended (a child
    /// never answers this; it is for who waits for targets as well).
    TargetsGone,
    /// The other descriptor became readable.
    Other,
    /// Neither, within the time allowed.
    Timeout,
}

impl Child {
    pub(super) fn new(
        pid: libc::pid_t,
        go_write: OwnedFd,
        error_read: OwnedFd,
        path: String,
    ) -> Child {
        Child {
            pid,
            path,
            gate: Some(Gate {
                go_write,
                error_read,
            }),
            // Safe from reuse of the number: the child is not reaped before `wait`.
            pidfd: Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            status: None,
        }
    }

    /// As on a kernel before Linux 5.3.
    #[cfg(test)]
    pub(super) fn without_pidfd(&mut self) {
        self.pidfd = None;
    }

    /// The process id, which stays the same over the exec.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Readable when the program has ended; `None` before Linux 5.3.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether [`go`](Self::go) was called.
    pub fn has_started(&self) -> bool {
        self.gate.is_none()
    }

    /// Lets the child become the program; returns when it has, or could not.
    /// A second call does nothing.
    ///
    /// A child that was killed while it waited counts as started; [`wait`](Self::wait) says
    /// by which signal it ended.
    ///
    /// # Errors
    /// [`ExecError`] when the program cannot be executed. The child is then gone.
    pub fn go(&mut self) -> Result<(), ExecError> {
        let Some(gate) = self.gate.take() else {
            return Ok(());
        };
        // Should the child be gone, the write fails with EPIPE (SIGPIPE is ignored in Rust
        // programs), and the error pipe reads as closed below.
        let _ = rustix::io::write(&gate.go_write, &[exec::GO]);
        let mut errno = [0; 4];
        match read_full(gate.error_read.as_fd(), &mut errno) {
            // The exec closed the pipe.
            Ok(0) => Ok(()),
            told => {
                let _ = self.wait();
                Err(ExecError {
                    errno: told.map_or_else(|e| e, |_| errno_from(i32::from_ne_bytes(errno))),
                    path: self.path.clone(),
                })
            }
        }
    }

    /// Waits for the program to end. The status is kept: asking again gives it again.
    ///
    /// # Errors
    /// `ECHILD` when somebody else has reaped the child (a SIGCHLD handler, or SIGCHLD ignored).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.reap(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// The status if the program has ended.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap(WaitOptions::NOHANG)
    }

    /// Waits until the program ends, `other` is readable, or the time is over
    /// (`None`: no bound). The end of the program is told first.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and what poll(2) says.
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<Waited> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Waited::Exited(status));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(Waited::Timeout);
            }
            let nap = match (&self.pidfd, left) {
                (Some(_), left) => left,
                (None, left) => Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))),
            };
            let fds = [self.pidfd(), other];
            let present: Vec<BorrowedFd<'_>> = fds.iter().copied().flatten().collect();
            let ready = readable(&present, nap)?;
            let ended = self.pidfd.is_some() && ready[0];
            if other.is_some() && ready[present.len() - 1] && !ended {
                return Ok(Waited::Other);
            }
        }
    }

    fn reap(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        match waitpid(Pid::from_raw(self.pid), options) {
            Ok(None) | Err(Errno::INTR) => Ok(None),
            Ok(Some((_, status))) => {
                self.status = Some(ExitStatus::from_raw(status.as_raw()));
                Ok(self.status)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a signal to the program, unless it has been reaped.
    ///
    /// # Errors
    /// What kill(2) says.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        // SAFETY: integers only; the child is not reaped, so the number is still its.
        match unsafe { libc::kill(self.pid, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.gate.is_some() {
            // Closing the pipe would do, if no other child that is waiting to be started
            // had been forked with a copy of it.
            let _ = self.signal(libc::SIGKILL);
            let _ = self.wait();
        }
    }
}
