//! Memory of processes that still run: code that was made at run time, and stacks where a
//! dump was too short.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rprof_launch::procfs::Procfs;
use rprof_processes::Pid;
use rprof_unwind::Memory;

/// Bytes read at once, from a place that is a multiple of it.
const PAGE: usize = 4 << 10;

/// Pages read for one stack: there is a page or two to a frame, and frames may be large.
const MOST_PAGES: u32 = 256;

/// Processes whose memory is kept open.
const MOST_OPEN: usize = 16;

/// Pages of code that are kept; a power of two.
const CODE_PAGES: usize = 256;

/// A process, and its memory if it may be read.
type Opened = (Pid, Option<Arc<File>>);

/// The memory of processes, through `/proc/PID/mem`, as it is now.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemories {
    /// Processes whose memory is open or was refused, the one used last first.
    open: RefCell<Vec<Opened>>,
    /// Direct-mapped cache of pages of code.
    code: RefCell<Vec<Option<CodePage>>>,
    /// The time of the sample that is looked at, in ns of CLOCK_MONOTONIC.
    time: Cell<u64>,
}

/// A page of a process's code.
#[derive(Debug)]
struct CodePage {
    pid: Pid,
    start: u64,
    /// When it was read. It tells no less of an earlier sample than what would be read now.
    read: u64,
    bytes: Box<[u8; PAGE]>,
}

impl ProcessMemories {
    /// Opens the memory of a process, unless it is open. `None` if it cannot be read.
    fn of(&self, pid: Pid) -> Option<Arc<File>> {
        let mut open = self.open.borrow_mut();
        match open.iter().position(|(known, _)| *known == pid) {
            Some(0) => {}
            Some(at) => open[..=at].rotate_right(1),
            None => {
                let proc = Procfs::default();
                let id = proc.id_with_memory(pid.0.cast_unsigned());
                let file = File::open(proc.folder(id).join("mem"));
                open.truncate(MOST_OPEN - 1);
                open.insert(0, (pid, file.ok().map(Arc::new)));
            }
        }
        open.first().and_then(|(_, file)| file.clone())
    }

    /// Sets the time of the sample that is being unwound, in nanoseconds.
    pub(crate) fn at(&self, time: u64) {
        self.time.set(time);
    }

    /// Copies bytes of code from `avma` on, as they were at the time of the sample or later. Returns
    /// their number.
    pub(crate) fn copy(&self, pid: Pid, avma: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = avma.checked_add(done as u64) else {
                break;
            };
            match self.copy_of_page(pid, at, rest) {
                0 => break,
                copied => done += copied,
            }
        }
        done
    }

    /// Copies bytes of code from `avma` to the end of its page at most. Returns their number.
    fn copy_of_page(&self, pid: Pid, avma: u64, into: &mut [u8]) -> usize {
        let within = (avma % PAGE as u64) as usize;
        let start = avma - within as u64;
        let mut pages = self.code.borrow_mut();
        if pages.is_empty() {
            pages.resize_with(CODE_PAGES, || None);
        }
        let place = (start / PAGE as u64) ^ u64::from(pid.0.cast_unsigned());
        let Some(place) = pages.get_mut(place as usize % CODE_PAGES) else {
            return 0;
        };
        let holds = |page: &CodePage| {
            page.pid == pid && page.start == start && self.time.get() <= page.read
        };
        if !place.as_ref().is_some_and(holds) {
            let Some(file) = self.of(pid) else {
                return 0;
            };
            let read = rprof_sampler::monotonic_ns();
            let mut bytes = place
                .take()
                .map_or_else(|| Box::new([0; PAGE]), |page| page.bytes);
            // Mappings consist of whole pages.
            if file.read_exact_at(&mut *bytes, start).is_err() {
                return 0;
            }
            *place = Some(CodePage {
                pid,
                start,
                read,
                bytes,
            });
        }
        let Some(bytes) = place.as_ref().and_then(|page| page.bytes.get(within..)) else {
            return 0;
        };
        let len = bytes.len().min(into.len());
        if let (Some(into), Some(bytes)) = (into.get_mut(..len), bytes.get(..len)) {
            into.copy_from_slice(bytes);
        }
        len
    }

    /// Returns a process's memory, for one stack.
    pub(crate) fn stack(&self, pid: Pid) -> Option<StackMemory> {
        Some(StackMemory {
            file: self.of(pid)?,
            page: RefCell::new((0, [0; PAGE], 0)),
            reads_left: Cell::new(MOST_PAGES),
        })
    }

    /// Forgets a process: it ended, or has another memory now.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.open.get_mut().retain(|(known, _)| *known != pid);
        for page in self.code.get_mut() {
            page.take_if(|page| page.pid == pid);
        }
    }
}

/// A stack as it is now, read by the page.
#[derive(Debug)]
pub(crate) struct StackMemory {
    file: Arc<File>,
    /// Address of the page that was read last, its bytes, and the number of those that are valid.
    page: RefCell<(u64, [u8; PAGE], usize)>,
    reads_left: Cell<u32>,
}

impl Memory for StackMemory {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        // The words of a stack are aligned.
        if !avma.is_multiple_of(8) {
            return None;
        }
        let mut page = self.page.borrow_mut();
        let (start, bytes, len) = &mut *page;
        let within = (avma % PAGE as u64) as usize;
        if *len == 0 || *start != avma - within as u64 {
            self.reads_left.set(self.reads_left.get().checked_sub(1)?);
            *start = avma - within as u64;
            *len = self.file.read_at(bytes, *start).unwrap_or(0);
        }
        let word = bytes.get(..*len)?.get(within..)?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
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
    fn stacks_are_read_up_to_a_bound() {
        let here: Vec<u64> = (0..10_000).collect();
        let at = |n: usize| &raw const here[n] as u64;
        let memories = ProcessMemories::default();
        let own = Pid(std::process::id().cast_signed());
        let stack = memories.stack(own).unwrap();
        for n in [0, 1, 9_999, 4, 5_000] {
            assert_eq!(stack.read_u64(at(n)), Some(n as u64));
        }
        for nowhere in [0, 8, at(1) + 1, u64::MAX, u64::MAX - 7] {
            assert_eq!(stack.read_u64(nowhere), None);
        }
        // However often it is asked for something far away.
        let far = |n: usize| stack.read_u64(at(n % 2 * 9_000)).is_some();
        assert!(far(0) && far(1) && far(2));
        assert!(!(0..400).all(far));
        // The page that was read last stays.
        assert!(far(0) != far(1));
        assert!(memories.stack(Pid(i32::MAX)).is_none());
    }

    #[test]
    fn processes_that_are_not_there_have_none() {
        let mut memories = ProcessMemories::default();
        assert_eq!(memories.copy(Pid(i32::MAX), 0, &mut [0; 8]), 0);
        memories.forget(Pid(i32::MAX));
        assert!(memories.open.borrow().is_empty());
    }
}
