//! [`Child`]: the parent's handle to the program.

use super::error::ExecError;
use super::exec;
use super::usage::{self, ResourceUsage};
use crate::procfs::Procfs;
use crate::wait::{read_full, readable};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitIdOptions, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Polls a child without a pidfd (before Linux 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Process created by [`Launcher::spawn`](super::Launcher::spawn).
///
/// It waits before its exec until [`release`](Self::release). Dropping it before that kills and
/// reaps the child.
///
/// A wait does not reap it: see [`usage`](Self::usage).
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    path: String,
    /// `None` after the release.
    hold: Option<HoldPipes>,
    pidfd: Option<OwnedFd>,
    end: Option<End>,
    /// Set when the child is reaped.
    usage: OnceLock<Option<ResourceUsage>>,
}

/// The exit of a child, as its zombie tells it.
#[derive(Clone, Copy, Debug)]
struct End {
    status: ExitStatus,
    time: Instant,
    /// Time that the first thread ran, and that it waited for a CPU.
    schedule: Option<(Duration, Duration)>,
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
    /// The attached processes or threads have exited. [`Child::wait_or`] never returns it; a wait
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
            end: None,
            usage: OnceLock::new(),
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
                self.usage();
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
            if let Some(status) = self.look(WaitIdOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Returns the status if the program has exited.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.look(WaitIdOptions::NOHANG)
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

    /// Reaps the program, and returns the resources used by it and all processes that it started
    /// and waited for; `None` until the wait has ended.
    ///
    /// Call it when no thread of this process with a high priority is busy. The kernel removes the
    /// program's entries in /proc, and spins until its last threads have left them. A thread of
    /// higher priority that wakes up often can keep these from the CPU: for 0.9 s, where a recorder
    /// emptied its buffers each millisecond.
    pub fn usage(&self) -> Option<ResourceUsage> {
        self.end?;
        *self.usage.get_or_init(|| {
            loop {
                match usage::reap(self.pid) {
                    Err(Errno::INTR) => {}
                    found => return found.ok(),
                }
            }
        })
    }

    /// Returns the time when the wait ended; `None` before.
    pub fn ended_at(&self) -> Option<Instant> {
        Some(self.end?.time)
    }

    /// Returns the time that the program's first thread ran, and the time that it was runnable
    /// without a CPU; `None` until the wait has ended.
    pub fn schedule(&self) -> Option<(Duration, Duration)> {
        self.end?.schedule
    }

    fn look(&mut self, options: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
        if let Some(end) = &self.end {
            return Ok(Some(end.status));
        }
        match usage::status(self.pid, options) {
            Ok(None) | Err(Errno::INTR) => Ok(None),
            Ok(Some(status)) => {
                let pid = self.pid.unsigned_abs();
                self.end = Some(End {
                    status,
                    time: Instant::now(),
                    schedule: Procfs::default().thread_times(pid, pid),
                });
                Ok(Some(status))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a signal to the program, unless a wait has ended.
    ///
    /// # Errors
    /// Returns the errors of kill(2): `EPERM` for a program that has taken another user's rights,
    /// `EINVAL` for an invalid signal number.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.end.is_some() {
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
        self.usage();
    }
}
