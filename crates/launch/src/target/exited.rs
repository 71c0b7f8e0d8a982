//! [`TargetExitWatcher`]: detects the exit of all attached targets.

use super::scope::TargetThread;
use super::selection::ThreadSelection;
use crate::command::WaitOutcome;
use crate::procfs::Procfs;
use crate::wait::readable;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Interval for polling targets without a pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// `PIDFD_THREAD` (linux/pidfd.h, Linux 6.9), which is `O_EXCL`: a pidfd of one thread.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// Opens a descriptor that becomes readable when the process or thread exits (pidfd_open(2), Linux
/// 5.3).
fn open_pidfd(id: u32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    pidfd_open(id.ok_or(Errno::SRCH)?, flags)
}

/// Waits until all attached processes or threads have exited.
///
/// A process exits with its last thread; threads selected by id exit individually. Children of a
/// target do not count, as with a command. A user's target ends when the user has no more
/// processes.
#[derive(Debug)]
pub struct TargetExitWatcher {
    pidfds: Vec<OwnedFd>,
    /// Targets without a pidfd (before Linux 5.3, or 6.9 for threads), polled in /proc.
    polled: Vec<TargetThread>,
    /// Looked up again when all of these have exited.
    selection: ThreadSelection,
    proc: Procfs,
}

impl TargetExitWatcher {
    /// Starts watching the threads of `selection` in `attached`.
    pub fn new(selection: ThreadSelection, attached: &[TargetThread]) -> TargetExitWatcher {
        let by_thread = matches!(selection, ThreadSelection::Threads(_));
        let mut watcher = TargetExitWatcher {
            pidfds: Vec::new(),
            polled: Vec::new(),
            selection,
            proc: Procfs::default(),
        };
        let mut seen = std::collections::HashSet::new();
        for thread in attached {
            let id = if by_thread { thread.tid } else { thread.pid };
            if !seen.insert(id) {
                continue;
            }
            let pidfd = match by_thread && thread.tid != thread.pid {
                true => open_pidfd(id, PIDFD_THREAD),
                false if by_thread => {
                    open_pidfd(id, PIDFD_THREAD).or_else(|_| open_pidfd(id, PidfdFlags::empty()))
                }
                false => open_pidfd(id, PidfdFlags::empty()),
            };
            match pidfd {
                Ok(pidfd) => watcher.pidfds.push(pidfd),
                Err(Errno::SRCH) => {}
                Err(_) => watcher.polled.push(*thread),
            }
        }
        watcher
    }

    /// Returns true if all have exited. Never blocks.
    pub fn all_exited(&mut self) -> bool {
        let fds: Vec<BorrowedFd<'_>> = self.fds().collect();
        if let Ok(ended) = readable(&fds, Some(Duration::ZERO)) {
            let mut ended = ended.into_iter();
            self.pidfds.retain(|_| !ended.next().unwrap_or(false));
        }
        let by_thread = matches!(self.selection, ThreadSelection::Threads(_));
        self.polled.retain(|thread| {
            let id = if by_thread { thread.tid } else { thread.pid };
            self.proc.exists(id)
        });
        if !self.pidfds.is_empty() || !self.polled.is_empty() {
            return false;
        }
        match &self.selection {
            ThreadSelection::User { .. } => self.selection.threads().is_empty(),
            _ => true,
        }
    }

    /// Returns descriptors that become readable at an exit.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pidfds.iter().map(AsFd::as_fd)
    }

    /// Returns the maximum time to wait on [`fds`](Self::fds) before another call of
    /// [`all_exited`](Self::all_exited); `None` if the descriptors suffice.
    pub fn poll_interval(&self) -> Option<Duration> {
        // Without pidfds, a user's processes can only be polled.
        (!self.polled.is_empty() || self.pidfds.is_empty()).then_some(POLL_INTERVAL)
    }
}

/// Waits until all targets have exited, `other` is readable, or the timeout expires (`None`: no
/// timeout). If several apply, returns the first in this order. Without targets, as for whole CPUs,
/// there are no exits.
///
/// # Errors
/// Returns the errors of poll(2).
pub fn wait_for_targets(
    mut targets: Option<&mut TargetExitWatcher>,
    other: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> io::Result<WaitOutcome> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        if targets.as_mut().is_some_and(|targets| targets.all_exited()) {
            return Ok(WaitOutcome::TargetsExited);
        }
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(WaitOutcome::Timeout);
        }
        let watched = targets.iter().flat_map(|targets| targets.fds());
        let fds: Vec<BorrowedFd<'_>> = other.into_iter().chain(watched).collect();
        let interval = targets.as_ref().and_then(|targets| targets.poll_interval());
        let ready = readable(&fds, [left, interval].into_iter().flatten().min())?;
        if other.is_some() && ready[0] {
            return Ok(WaitOutcome::Other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn processes_have_exited_when_all_have_ended() {
        let mut sleepers: Vec<_> = (0..2)
            .map(|_| Command::new("sleep").arg("100").spawn().unwrap())
            .collect();
        let pids: Vec<u32> = sleepers.iter().map(Child::id).collect();
        let selection = ThreadSelection::Processes(pids);
        let mut watcher = TargetExitWatcher::new(selection.clone(), &selection.threads());
        for child in &mut sleepers {
            assert!(!watcher.all_exited());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(watcher.all_exited());
        assert!(TargetExitWatcher::new(selection.clone(), &selection.threads()).all_exited());
    }

    #[test]
    fn a_thread_exits_before_its_process() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (told, tid) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_pid() as u32)
                .unwrap();
            stopped.recv().ok();
        });
        let selection = ThreadSelection::Threads(vec![tid.recv().unwrap()]);
        let mut watcher = TargetExitWatcher::new(selection.clone(), &selection.threads());
        assert!(!watcher.all_exited());
        drop(stop);
        thread.join().unwrap();
        // The join returns shortly before the thread's exit is complete.
        while !watcher.all_exited() {
            std::thread::yield_now();
        }
    }
}
