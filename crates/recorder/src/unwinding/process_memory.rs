//! Memory of processes that still run: code that was made at run time.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rprof_processes::Pid;

/// Processes whose memory is kept open.
const MOST_OPEN: usize = 16;

/// A process, and its memory if it may be read.
type Opened = (Pid, Option<Arc<File>>);

/// The memory of processes, through `/proc/PID/mem`, as it is now.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemories {
    /// The one used last comes first.
    open: RefCell<Vec<Opened>>,
}

impl ProcessMemories {
    /// The memory of a process; of none if it cannot be read.
    fn of(&self, pid: Pid) -> Option<Arc<File>> {
        let mut open = self.open.borrow_mut();
        match open.iter().position(|(known, _)| *known == pid) {
            Some(0) => {}
            Some(at) => open[..=at].rotate_right(1),
            None => {
                let file = File::open(format!("/proc/{}/mem", pid.0));
                open.truncate(MOST_OPEN - 1);
                open.insert(0, (pid, file.ok().map(Arc::new)));
            }
        }
        open.first().and_then(|(_, file)| file.clone())
    }

    /// Copies bytes from `avma` on; says how many.
    pub(crate) fn copy(&self, pid: Pid, avma: u64, into: &mut [u8]) -> usize {
        let file = self.of(pid);
        file.map_or(0, |file| file.read_at(into, avma).unwrap_or(0))
    }

    /// Forgets a process: it ended, or has another memory now.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.open.get_mut().retain(|(known, _)| *known != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_what_is_there_and_nothing_else() {
        let here: Vec<u64> = (0..100).collect();
        let at = |n: usize| &raw const here[n] as u64;
        let own = Pid(std::process::id().cast_signed());
        let memories = ProcessMemories::default();
        let mut bytes = [0; 8];
        for n in [0, 99, 3] {
            assert_eq!(memories.copy(own, at(n), &mut bytes), 8);
            assert_eq!(u64::from_le_bytes(bytes), n as u64);
        }
        assert_eq!(memories.copy(own, 8, &mut bytes), 0);
        assert_eq!(memories.copy(own, u64::MAX, &mut bytes), 0);
    }

    #[test]
    fn processes_that_are_not_there_have_none() {
        let mut memories = ProcessMemories::default();
        assert_eq!(memories.copy(Pid(i32::MAX), 0, &mut [0; 8]), 0);
        memories.forget(Pid(i32::MAX));
        assert!(memories.open.borrow().is_empty());
    }
}
