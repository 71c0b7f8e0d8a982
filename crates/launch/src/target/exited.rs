//! Waiting until all that was attached to has ended.

use super::{Attached, Selection};
use crate::sys;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Between looks at what cannot make its end readable.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What was attached to and has not ended yet.
///
/// Processes end with their last thread; where threads were named, each counts by itself. What
/// they started does not keep a recording going, as it does not when a command is recorded; only
/// with a user, it goes on as long as that user has processes.
#[derive(Debug)]
pub(crate) struct Living {
    handles: Vec<OwnedFd>,
    /// Those without a handle, as before Linux 5.3, or 6.9 for threads.
    looked_at: Vec<Attached>,
    /// Asked when all of these are gone.
    selection: Selection,
}

impl Living {
    /// Takes note of all processes or threads of a selection that were attached to.
    pub(crate) fn new(selection: Selection, attached: &[Attached]) -> Living {
        let by_thread = matches!(selection, Selection::Threads(_));
        let mut living = Living {
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
                true => sys::thread_fd(id),
                false if by_thread => sys::thread_fd(id).or_else(|_| sys::pidfd(id as libc::pid_t)),
                false => sys::pidfd(id as libc::pid_t),
            };
            match handle {
                Ok(handle) => living.handles.push(handle),
                Err(errno) if errno.0 == libc::ESRCH => {}
                Err(_) => living.looked_at.push(*thread),
            }
        }
        living
    }

    /// Whether all have ended.
    pub(crate) fn are_gone(&mut self) -> bool {
        let mut fds: Vec<libc::pollfd> = self.fds().map(sys::readable).collect();
        if sys::poll(&mut fds, Some(Duration::ZERO)).is_ok() {
            let mut ended = fds.iter().map(|fd| fd.revents != 0);
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
    pub(crate) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.handles.iter().map(AsRawFd::as_raw_fd)
    }

    /// How long to wait at most before asking again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        // Without a handle left, what there is to wait for can only be looked at.
        (!self.looked_at.is_empty() || self.handles.is_empty()).then_some(LOOK_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn processes_are_gone_when_all_have_ended() {
        let mut sleepers: Vec<_> = (0..2)
            .map(|_| Command::new("sleep").arg("100").spawn().unwrap())
            .collect();
        let pids: Vec<u32> = sleepers.iter().map(Child::id).collect();
        let selection = Selection::Processes(pids);
        let mut living = Living::new(selection.clone(), &selection.list());
        for child in &mut sleepers {
            assert!(!living.are_gone());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(living.are_gone());
        assert!(Living::new(selection.clone(), &selection.list()).are_gone());
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
        let mut living = Living::new(selection.clone(), &selection.list());
        assert!(!living.are_gone());
        drop(stop);
        thread.join().unwrap();
        // The join comes a moment before the kernel is done with the thread.
        while !living.are_gone() {
            std::thread::yield_now();
        }
    }
}
