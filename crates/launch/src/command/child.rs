//! [`Child`]: the parent's handle to the program.

use super::error::ExecError;
use super::exec;
use super::usage::{ResourceUsage, has_ended, wait4};
use crate::procfs::Procfs;
use crate::wait::{read_full, readable};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Polls a child without a pidfd (before Linux 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Process created by [`Launcher::spawn`](super::Launcher::spawn).
///
/// It waits before its exec until [`release`](Self::release). Dropping it before that kills and
/// reaps the child.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    path: String,
    /// `None` after the release.
    hold: Option<HoldPipes>,
    pidfd: Option<OwnedFd>,
    status: Option<ExitStatus>,
    usage: Option<ResourceUsage>,
    /// Time that the first thread waited for a CPU, at the last reading.
    run_delay: Option<Duration>,
}

#[derive(Debug)]
struct HoldPipes {
    release_write: OwnedFd,
    error_read: OwnedFd,
}

/// Event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The program exited.
    Exited(ExitStatus),
    /// All attached processes or threads have exited. [`Child::wait_or`] never returns it; a wait
    /// for targets does.
    TargetsExited,
    /// The other descriptor became readable.
    Other,
    /// The wait timed out.
    Timeout,
}

impl Child {
    pub(super) fn new(
        pid: libc::pid_t,
        release_write: OwnedFd,
        error_read: OwnedFd,
        path: String,
    ) -> Child {
        Child {
            pid,
            path,
            hold: Some(HoldPipes {
                release_write,
                error_read,
            }),
            // The pid cannot be reused before `wait` reaps the child.
            pidfd: Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            status: None,
            usage: None,
            run_delay: None,
        }
    }

    /// Drops the pidfd, as on a kernel before Linux 5.3.
    #[cfg(test)]
    pub(super) fn without_pidfd(&mut self) {
        self.pidfd = None;
    }

    /// Returns the process id, which does not change at the exec.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Returns a descriptor that becomes readable when the program exits; `None` before Linux 5.3.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Lets the child execute the program. Returns after the exec has succeeded or failed. A second
    /// call does nothing.
    ///
    /// A child killed while held counts as started. [`wait`](Self::wait) returns the signal that
    /// ended it.
    ///
    /// # Errors
    /// Returns [`ExecError`] if the program cannot be executed. The child has then exited.
    pub fn release(&mut self) -> Result<(), ExecError> {
        let Some(pipes) = self.hold.take() else {
            return Ok(());
        };
        // If the child is gone, the write fails with EPIPE (Rust programs ignore SIGPIPE), and the
        // error pipe reads as closed.
        let _ = rustix::io::write(&pipes.release_write, &[exec::RELEASE]);
        let mut errno = [0; 4];
        match read_full(pipes.error_read.as_fd(), &mut errno) {
            // A successful exec closes the pipe.
            Ok(0) => Ok(()),
            failed => {
                let _ = self.wait();
                Err(ExecError {
                    errno: failed
                        .map_or_else(|e| e, |_| rprof_errno::from_raw(i32::from_ne_bytes(errno))),
                    path: self.path.clone(),
                })
            }
        }
    }

    /// Waits for the program to exit. Further calls return the same status.
    ///
    /// # Errors
    /// Returns `ECHILD` if other code has reaped the child (a SIGCHLD handler, or SIGCHLD ignored).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.reap(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Returns the status if the program has exited.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap(WaitOptions::NOHANG)
    }

    /// Waits until the program exits, `other` is readable, or the timeout expires. The exit takes
    /// precedence.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Self::wait) and of poll(2).
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(WaitOutcome::Exited(status));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(WaitOutcome::Timeout);
            }
            let nap = match (&self.pidfd, left) {
                (Some(_), left) => left,
                (None, left) => Some(left.map_or(POLL_INTERVAL, |left| left.min(POLL_INTERVAL))),
            };
            let fds = [self.pidfd(), other];
            let present: Vec<BorrowedFd<'_>> = fds.iter().copied().flatten().collect();
            let ready = readable(&present, nap)?;
            let ended = self.pidfd.is_some() && ready[0];
            if other.is_some() && ready[present.len() - 1] && !ended {
                return Ok(WaitOutcome::Other);
            }
        }
    }

    /// Returns the resources used by the program and all processes that it started and waited for;
    /// `None` until the wait has ended.
    pub fn usage(&self) -> Option<ResourceUsage> {
        self.usage
    }

    /// Returns the time that the program's first thread was runnable without a CPU; `None` until
    /// the wait has ended.
    pub fn run_delay(&self) -> Option<Duration> {
        self.run_delay
    }

    fn reap(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        if has_ended(self.pid, options) {
            // Last chance to read it.
            let pid = self.pid.unsigned_abs();
            self.run_delay = Procfs::default().run_delay(pid, pid);
        }
        match wait4(self.pid, options) {
            Ok(None) | Err(Errno::INTR) => Ok(None),
            Ok(Some((status, usage))) => {
                self.status = Some(status);
                self.usage = Some(usage);
                Ok(self.status)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a signal to the program, unless it has been reaped.
    ///
    /// # Errors
    /// Returns the errors of kill(2): `EPERM` for a program that has taken another user's rights,
    /// `EINVAL` for an invalid signal number.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        // SAFETY: integers only; the child is not reaped, so the pid still belongs to it.
        match unsafe { libc::kill(self.pid, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.hold.is_some() {
            // Closing the pipe is not enough: another held child may have a copy of it.
            let _ = self.signal(libc::SIGKILL);
            let _ = self.wait();
        }
    }
}
