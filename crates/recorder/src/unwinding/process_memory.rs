//! Memory of processes that still run: stacks where a dump was too short, and code that
//! was made at run time.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rprof_processes::Pid;
use rprof_unwind::Memory;

/// Bytes read at once: the frames that a dump left out are near its end.
const WINDOW: usize = 32 << 10;

/// Windows read for one stack: it may be 4 MiB deep.
const MOST_WINDOWS: u32 = 128;

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

    /// A process's memory, for one stack.
    pub(crate) fn stack(&self, pid: Pid) -> Option<StackMemory> {
        Some(StackMemory {
            file: self.of(pid)?,
            window: RefCell::default(),
            reads_left: Cell::new(MOST_WINDOWS),
        })
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

/// A stack as it is now. Reads pieces of it, each once.
#[derive(Debug)]
pub(crate) struct StackMemory {
    file: Arc<File>,
    window: RefCell<Window>,
    reads_left: Cell<u32>,
}

#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl StackMemory {
    /// Whether these bytes lie at this address.
    pub(crate) fn has(&self, avma: u64, bytes: &[u8]) -> bool {
        let mut now = vec![0; bytes.len()];
        self.file
            .read_at(&mut now, avma)
            .is_ok_and(|n| n == now.len())
            && now == bytes
    }
}

impl Memory for StackMemory {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let mut window = self.window.borrow_mut();
        let word = |window: &Window| {
            let at = usize::try_from(avma.checked_sub(window.start)?).ok()?;
            let bytes = window.bytes.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        if let Some(word) = word(&window) {
            return Some(word);
        }
        let left = self.reads_left.get().checked_sub(1)?;
        self.reads_left.set(left);
        window.start = avma;
        window.bytes.resize(WINDOW, 0);
        let read = self.file.read_at(&mut window.bytes, avma).unwrap_or(0);
        window.bytes.truncate(read);
        word(&window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_and_nothing_else() {
        let here: Vec<u64> = (0..10_000).collect();
        let at = |n: usize| &raw const here[n] as u64;
        let own = Pid(std::process::id().cast_signed());
        let memories = ProcessMemories::default();
        let stack = memories.stack(own).unwrap();
        for n in [0, 1, 9_999, 4, 5_000] {
            assert_eq!(stack.read_u64(at(n)), Some(n as u64));
        }
        assert_eq!(stack.read_u64(8), None);
        assert_eq!(stack.read_u64(u64::MAX), None);
        assert!(stack.has(at(7), &7u64.to_le_bytes()));
        assert!(!stack.has(at(7), &8u64.to_le_bytes()));
        // Bounded, however often it is asked for something far away.
        let far = (0..400).filter(|n| stack.read_u64(at(n % 2 * 9_000)).is_some());
        // The last piece stays.
        assert!(far.count() < 300);
        let mut bytes = [0; 8];
        assert_eq!(memories.copy(own, at(3), &mut bytes), 8);
        assert_eq!(u64::from_le_bytes(bytes), 3);
    }

    #[test]
    fn processes_that_are_not_there_have_none() {
        let mut memories = ProcessMemories::default();
        assert!(memories.stack(Pid(i32::MAX)).is_none());
        assert_eq!(memories.copy(Pid(i32::MAX), 0, &mut [0; 8]), 0);
        memories.forget(Pid(i32::MAX));
        assert!(memories.open.borrow().is_empty());
    }
}
