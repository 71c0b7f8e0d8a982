//! Waiting until all that was attached to has ended.

use super::{Attached, Selection};
use crate::wait::readable;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Between looks at what cannot make its end readable.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// `PIDFD_THREAD` (linux/pidfd.h, Linux 6.9), which is `O_EXCL`: a handle on one thread.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A descriptor that becomes readable when the process or thread ends (pidfd_open(2), Linux 5.3).
fn open(id: u32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    pidfd_open(id.ok_or(Errno::SRCH)?, flags)
}

/// What was attached to and has not ended yet.
///
/// Processes end with their last thread; where threads were named, each counts by itself. What
/// they started does not keep a recording going, as it does not when a command is recorded; only
/// with a user, it goes on as long as that user has processes.
#[derive(Debug)]
pub struct TargetExitWatcher {
    handles: Vec<OwnedFd>,
    /// Those without a handle, as before Linux 5.3, or 6.9 for threads.
    looked_at: Vec<Attached>,
    /// Asked when all of these are gone.
    selection: Selection,
}

impl TargetExitWatcher {
    /// Takes note of all processes or threads of a selection that were attached to.
    pub fn new(selection: Selection, attached: &[Attached]) -> TargetExitWatcher {
        let by_thread = matches!(selection, Selection::Threads(_));
        let mut living = TargetExitWatcher {
            handles: Vec::new(),
            looked_at: Vec::new(),
            selection,
        };
        let mut seen = std::collections::HashSet::new();
        for thread in attached {
            let id = if by_thread { thread.tid } else { thread.pid };
            if !seen.insert(id) {
                continue;
            }
            let handle = match by_thread && thread.tid != thread.pid {
                true => open(id, PIDFD_THREAD),
                false if by_thread => {
                    open(id, PIDFD_THREAD).or_else(|_| open(id, PidfdFlags::empty()))
                }
                false => open(id, PidfdFlags::empty()),
            };
            match handle {
                Ok(handle) => living.handles.push(handle),
                Err(Errno::SRCH) => {}
                Err(_) => living.looked_at.push(*thread),
            }
        }
        living
    }

    /// Whether all have ended.
    pub fn all_exited(&mut self) -> bool {
        let fds: Vec<BorrowedFd<'_>> = self.fds().collect();
        if let Ok(ended) = readable(&fds, Some(Duration::ZERO)) {
            let mut ended = ended.into_iter();
            self.handles.retain(|_| !ended.next().unwrap_or(false));
        }
        let by_thread = matches!(self.selection, Selection::Threads(_));
        self.looked_at.retain(|thread| {
            let id = if by_thread { thread.tid } else { thread.pid };
            std::path::Path::new("/proc").join(id.to_string()).exists()
        });
        if !self.handles.is_empty() || !self.looked_at.is_empty() {
            return false;
        }
        match &self.selection {
            Selection::User { .. } => self.selection.list().is_empty(),
            _ => true,
        }
    }

    /// Descriptors that become readable when something ends.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.handles.iter().map(AsFd::as_fd)
    }

    /// How long to wait at most before asking again.
    pub fn patience(&self) -> Option<Duration> {
        // Without a handle left, what there is to wait for can only be looked at.
        (!self.looked_at.is_empty() || self.handles.is_empty()).then_some(LOOK_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn processes_all_exited_when_all_have_ended() {
        let mut sleepers: Vec<_> = (0..2)
            .map(|_| Command::new("sleep").arg("100").spawn().unwrap())
            .collect();
        let pids: Vec<u32> = sleepers.iter().map(Child::id).collect();
        let selection = Selection::Processes(pids);
        let mut living = TargetExitWatcher::new(selection.clone(), &selection.list());
        for child in &mut sleepers {
            assert!(!living.all_exited());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(living.all_exited());
        assert!(TargetExitWatcher::new(selection.clone(), &selection.list()).all_exited());
    }

    #[test]
    fn a_thread_is_gone_before_its_process() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (told, tid) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: no arguments.
            told.send(unsafe { libc::gettid() } as u32).unwrap();
            stopped.recv().ok();
        });
        let selection = Selection::Threads(vec![tid.recv().unwrap()]);
        let mut living = TargetExitWatcher::new(selection.clone(), &selection.list());
        assert!(!living.all_exited());
        drop(stop);
        thread.join().unwrap();
        // The join comes a moment before the kernel is done with the thread.
        while !living.all_exited() {
            std::thread::yield_now();
        }
    }
}
