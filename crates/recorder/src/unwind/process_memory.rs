//! Reads memory of running processes: JIT code, and stacks beyond a short dump.
//!
//! A file-backed page may never arrive (FUSE, a network, `userfaultfd`). So a separate thread reads
//! memory, with a time limit per user. It reads many pages at a time, because the hand-over takes
//! longer than the read.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use rprof_image::{Patience, PatientCalls, Rate};
use rprof_interpreters::MemoryRead;
use rprof_jit::LiveFiles;
use rprof_processes::Pid;
use rprof_unwind::{Memory, StackDump};
use rustc_hash::FxHashMap;

use super::memory_file::MemoryFile;
use crate::backlog::Backlog;

/// Size of a read in bytes; reads are aligned to it.
pub(super) const PAGE: usize = 4 << 10;

const AHEAD: usize = 8;

/// Maximum number of pages per system call.
const MAX_IN_A_ROW: usize = 16;

/// Maximum number of pages read for one stack. A frame takes a page or two, and frames may be
/// large.
const MAX_PAGES: u32 = 256;

/// Maximum number of pages read for all stacks of a process that are inspected together.
const MAX_PAGES_TOGETHER: u32 = 4 * MAX_PAGES;

const MAX_OPEN: usize = 16;

/// Number of cached code pages; a power of two.
const CODE_PAGES: usize = 256;

/// Least and most time until code of a file that did not change is read again, in nanoseconds.
const TRUSTED: (u64, u64) = (10_000_000, 500_000_000);

/// Maximum number of further code pages read together with one.
const MAX_TOGETHER: usize = 31;

/// Limits on waiting for memory, because all samples wait meanwhile.
const PATIENCE: Patience = Patience {
    of_one: Duration::from_millis(50),
    free: Duration::from_millis(1),
    of_user: Rate {
        most: 200_000_000,
        a_second: 20_000_000,
    },
    of_all: Rate {
        most: 2_000_000_000,
        a_second: 200_000_000,
    },
};

/// Maximum wait for memory while samples pile up.
const HASTE: Duration = Duration::from_millis(5);

thread_local! {
    static IS_PREFERRED: Cell<bool> = const { Cell::new(false) };
}

type Page = Box<[u8; PAGE]>;

#[derive(Clone, Debug)]
struct Process {
    user: u32,
    file: Arc<MemoryFile>,
    reader: Arc<Reader>,
}

#[derive(Debug)]
struct Reader {
    calls: PatientCalls,
    backlog: Backlog,
}

#[derive(Debug)]
pub(crate) struct ProcessMemories {
    /// Processes with opened or refused memory, most recently used first.
    open: RefCell<Vec<(Pid, Option<Process>)>>,
    /// Direct-mapped cache of code pages.
    code: RefCell<Vec<Option<CodePage>>>,
    time: Cell<u64>,
    reader: Arc<Reader>,
}

#[derive(Debug)]
struct CodePage {
    pid: Pid,
    start: u64,
    /// Time of the read. For earlier samples it is as good as a new read.
    read: u64,
    is_used: bool,
    /// True for a mapped file, whose code does not change.
    is_of_file: bool,
    /// Time in nanoseconds after `read` until the next read. Code of files that was read twice with
    /// the same result is read rarely: reads take long on a busy machine.
    trusted: u64,
    /// `None` if it is unreadable. A timeout is not kept: samples that wait in the backlog are older
    /// than the timeout, and would all end at this page.
    bytes: Option<Page>,
}

impl CodePage {
    fn is_valid_at(&self, time: u64) -> bool {
        time <= self.read.saturating_add(self.trusted)
    }

    /// Returns true for code of a file that is as good as a read that does not end in time. The
    /// reading thread may wait for a CPU longer than the samples can.
    fn serves_until_read(&self, time: u64) -> bool {
        self.is_of_file && self.bytes.is_some() && time <= self.read.saturating_add(TRUSTED.1)
    }
}

fn place_of(pid: Pid, start: u64) -> usize {
    ((start / PAGE as u64) ^ u64::from(pid.0.cast_unsigned())) as usize % CODE_PAGES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotInTime;

impl Reader {
    fn call<R: Send + 'static>(
        &self,
        user: u32,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let most = match self.backlog.is_long() {
            true => HASTE,
            false => PATIENCE.of_one,
        };
        self.call_within(user, most, call)
    }

    fn call_within<R: Send + 'static>(
        &self,
        user: u32,
        most: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let boosted = self.backlog.boosted().clone();
        let call = move || {
            // All samples wait meanwhile.
            if !IS_PREFERRED.replace(true) {
                rprof_sampler::prefer_this_thread();
            }
            boosted.follow();
            call()
        };
        self.calls.call_within(user, most, call)
    }
}

impl Process {
    /// Opens the memory of a process. The inner `None` means unreadable, the outer one a timeout.
    fn open(pid: Pid, reader: &Arc<Reader>) -> Option<Option<Process>> {
        let user = PatientCalls::user_of(pid.0.cast_unsigned());
        let file = reader.call_within(user, PATIENCE.of_one, move || MemoryFile::open(pid))?;
        Some(file.map(|file| Process {
            user,
            file: Arc::new(file),
            reader: Arc::clone(reader),
        }))
    }

    fn read(&self, pages: Vec<u64>) -> Result<Vec<(u64, Page)>, NotInTime> {
        let read = self.reading(pages);
        self.reader.call(self.user, read).ok_or(NotInTime)
    }

    /// Reads pages that many samples need. Without them, all these would end, so the backlog does
    /// not shorten the wait.
    fn read_first(&self, pages: Vec<u64>) -> Result<Vec<(u64, Page)>, NotInTime> {
        let read = self.reading(pages);
        let found = self.reader.call_within(self.user, PATIENCE.of_one, read);
        found.ok_or(NotInTime)
    }

    fn reading(&self, pages: Vec<u64>) -> impl FnOnce() -> Vec<(u64, Page)> + Send + 'static {
        let file = Arc::clone(&self.file);
        move || {
            let mut found = Vec::with_capacity(pages.len());
            let mut bytes = Vec::new();
            // Adjacent pages are read with one call, up to the first unreadable page.
            for row in pages.chunk_by(|one, next| next.wrapping_sub(*one) == PAGE as u64) {
                for row in row.chunks(MAX_IN_A_ROW) {
                    read_row(&file, row, &mut bytes, &mut found);
                }
            }
            found
        }
    }
}

/// Reads of a batch, with their results.
#[derive(Debug)]
pub(super) struct CompletedBatch {
    pub(super) reads: Vec<MemoryRead>,
    /// Begin in nanoseconds of CLOCK_MONOTONIC.
    pub(super) began: u64,
    pub(super) duration: Duration,
}

/// Maximum number of reads, and of bytes, in a batch of an interpreter.
const MAX_READS: usize = 512;
const MAX_BYTES: usize = 256 << 10;

/// Returns the number of reads at the beginning of a batch that fit its limits.
pub(super) fn fitting(reads: &[MemoryRead]) -> usize {
    let mut bytes = 0;
    let fits = |read: &&MemoryRead| {
        bytes += read.bytes.len();
        bytes <= MAX_BYTES
    };
    reads.iter().take(MAX_READS).take_while(fits).count()
}

fn read_row(file: &MemoryFile, row: &[u64], bytes: &mut Vec<u8>, found: &mut Vec<(u64, Page)>) {
    bytes.resize(row.len() * PAGE, 0);
    let mut left = row;
    while let Some(start) = left.first() {
        let room = bytes.get_mut(..left.len() * PAGE).unwrap_or_default();
        // Mappings consist of whole pages.
        let read = file.read(room, *start) / PAGE;
        let (pages, _) = room.as_chunks::<PAGE>();
        let there = left.iter().zip(pages).take(read);
        found.extend(there.map(|(start, page)| (*start, Box::new(*page))));
        // The next page seems unreadable.
        left = left.get(read.max(1)..).unwrap_or_default();
    }
}

impl ProcessMemories {
    /// Creates a reader, which waits less while the backlog is long.
    pub(crate) fn new(backlog: Backlog) -> ProcessMemories {
        ProcessMemories::with_patience(backlog, PATIENCE)
    }

    fn with_patience(backlog: Backlog, patience: Patience) -> ProcessMemories {
        ProcessMemories {
            open: RefCell::default(),
            code: RefCell::default(),
            time: Cell::default(),
            reader: Arc::new(Reader {
                calls: PatientCalls::new("rprof-memory", patience),
                backlog,
            }),
        }
    }

    /// Opens the memory of a process unless it is open. Returns `None` if it cannot be read.
    fn of(&self, pid: Pid) -> Result<Option<Process>, NotInTime> {
        let mut open = self.open.borrow_mut();
        match open.iter().position(|(known, _)| *known == pid) {
            Some(0) => {}
            Some(at) => open[..=at].rotate_right(1),
            None => {
                let process = Process::open(pid, &self.reader).ok_or(NotInTime)?;
                open.truncate(MAX_OPEN - 1);
                open.insert(0, (pid, process));
            }
        }
        Ok(open.first().and_then(|(_, process)| process.clone()))
    }

    /// Returns the open memory of a process. `None` if it is unreadable.
    pub(super) fn file(&self, pid: Pid) -> Option<Arc<MemoryFile>> {
        Some(self.of(pid).ok()??.file)
    }

    pub(crate) fn at(&self, time: u64) {
        self.time.set(time);
    }

    /// Returns the number of timeouts and refused reads.
    pub(crate) fn refused(&self) -> u64 {
        self.reader.calls.refused()
    }

    /// Copies code bytes from `avma`, as of the time of the sample or later. Returns their number.
    /// Code `is_of_file` may be somewhat older.
    pub(super) fn copy(
        &self,
        pid: Pid,
        avma: u64,
        into: &mut [u8],
        is_of_file: bool,
    ) -> Result<usize, NotInTime> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = avma.checked_add(done as u64) else {
                break;
            };
            match self.copy_of_page(pid, at, rest, is_of_file)? {
                0 => break,
                copied => done += copied,
            }
        }
        Ok(done)
    }

    /// Copies code bytes from `avma`, up to the end of its page. Returns their number.
    fn copy_of_page(
        &self,
        pid: Pid,
        avma: u64,
        into: &mut [u8],
        is_of_file: bool,
    ) -> Result<usize, NotInTime> {
        let within = (avma % PAGE as u64) as usize;
        let start = avma - within as u64;
        let mut pages = self.code.borrow_mut();
        if pages.is_empty() {
            pages.resize_with(CODE_PAGES, || None);
        }
        let holds = |page: &CodePage| {
            page.pid == pid && page.start == start && page.is_valid_at(self.time.get())
        };
        let place = place_of(pid, start);
        if !pages[place].as_ref().is_some_and(holds) {
            let Some(process) = self.of(pid)? else {
                return Ok(0);
            };
            let is_known = |page: &CodePage| page.pid == pid && page.start == start;
            let known = pages[place].as_ref().filter(|page| is_known(page));
            let serves = known.is_some_and(|page| page.serves_until_read(self.time.get()));
            let is_first = known.is_none();
            let read = self.read_code(&mut pages, &process, (pid, start), (is_of_file, is_first));
            if !serves {
                read?;
            }
        }
        let bytes = pages[place].as_mut().and_then(|page| {
            page.is_used = true;
            page.bytes.as_ref()
        });
        let Some(bytes) = bytes.and_then(|bytes| bytes.get(within..)) else {
            return Ok(0);
        };
        let len = bytes.len().min(into.len());
        if let (Some(into), Some(bytes)) = (into.get_mut(..len), bytes.get(..len)) {
            into.copy_from_slice(bytes);
        }
        Ok(len)
    }

    /// Reads a code page, together with the process's outdated pages in use. Stacks of a program
    /// share code, and each read takes as long.
    fn read_code(
        &self,
        pages: &mut [Option<CodePage>],
        process: &Process,
        (pid, start): (Pid, u64),
        (is_of_file, is_first): (bool, bool),
    ) -> Result<(), NotInTime> {
        let now = self.time.get();
        let is_stale = |page: &&CodePage| page.pid == pid && page.is_used && !page.is_valid_at(now);
        let others = pages.iter().flatten().filter(is_stale);
        // The new page replaces the page at its cache index.
        let stays = |at: &u64| place_of(pid, *at) != place_of(pid, start);
        let others = others.map(|page| page.start).filter(stays);
        let mut wanted = vec![start];
        wanted.extend(others.take(MAX_TOGETHER));
        let read = rprof_sampler::monotonic_ns();
        let mut found = match is_first {
            true => process.read_first(wanted.clone())?,
            false => process.read(wanted.clone())?,
        };
        for at in wanted {
            let known = found.iter().position(|(start, _)| *start == at);
            let bytes = known.map(|known| found.swap_remove(known).1);
            let place = &mut pages[place_of(pid, at)];
            let before = place.take_if(|page| page.pid == pid && page.start == at);
            let is_of_file = match at == start {
                true => is_of_file,
                false => before.as_ref().is_some_and(|page| page.is_of_file),
            };
            let is_equal = before.as_ref().is_some_and(|page| page.bytes == bytes);
            let trusted = match before.filter(|_| is_of_file && is_equal && bytes.is_some()) {
                Some(page) => (page.trusted * 2).clamp(TRUSTED.0, TRUSTED.1),
                None => 0,
            };
            *place = Some(CodePage {
                pid,
                start: at,
                read,
                is_used: false,
                is_of_file,
                trusted,
                bytes,
            });
        }
        Ok(())
    }

    /// Reads a batch with one call. `None` if the memory cannot be opened.
    pub(super) fn read_batch(
        &self,
        pid: Pid,
        mut reads: Vec<MemoryRead>,
    ) -> Result<Option<CompletedBatch>, NotInTime> {
        let Some(process) = self.of(pid)? else {
            return Ok(None);
        };
        let file = Arc::clone(&process.file);
        let read = move || {
            let began = rprof_sampler::monotonic_ns();
            file.read_batch(&mut reads);
            CompletedBatch {
                reads,
                began,
                duration: Duration::from_nanos(rprof_sampler::monotonic_ns() - began),
            }
        };
        let done = process.reader.call(process.user, read).ok_or(NotInTime)?;
        Ok(Some(done))
    }

    /// Returns true if the process has written a perf map. `None` on a timeout.
    pub(super) fn has_perf_map(&self, pid: Pid) -> Option<bool> {
        let user = PatientCalls::user_of(pid.0.cast_unsigned());
        let look = move || {
            let mut files = LiveFiles::new(pid.0);
            let perf_map = files.jitdumps();
            files.open(perf_map).is_ok_and(|file| file.is_some())
        };
        self.reader.call(user, look)
    }

    pub(crate) fn stack(&self, pid: Pid) -> Option<StackMemory> {
        self.within(pid, MAX_PAGES)
    }

    pub(crate) fn stacks(&self, pid: Pid) -> Option<StackMemory> {
        self.within(pid, MAX_PAGES_TOGETHER)
    }

    fn within(&self, pid: Pid, pages: u32) -> Option<StackMemory> {
        Some(StackMemory {
            process: self.of(pid).ok()??,
            pages: RefCell::default(),
            reads_left: Cell::new(pages),
        })
    }

    pub(crate) fn forget(&mut self, pid: Pid) {
        self.open.get_mut().retain(|(known, _)| *known != pid);
        for page in self.code.get_mut() {
            page.take_if(|page| page.pid == pid);
        }
    }
}

#[derive(Debug)]
pub(crate) struct StackMemory {
    process: Process,
    /// Pages read so far, by address; `None` if unreadable.
    pages: RefCell<FxHashMap<u64, Option<Page>>>,
    reads_left: Cell<u32>,
}

impl StackMemory {
    pub(super) fn pages_from(&self, avma: u64) -> impl Iterator<Item = u64> + use<> {
        let start = avma - avma % PAGE as u64;
        (0..AHEAD as u64).map_while(move |n| start.checked_add(n * PAGE as u64))
    }

    /// Reads the pages of all these addresses together, because each read takes as long.
    pub(crate) fn prefetch(&self, addresses: impl Iterator<Item = u64>) {
        let mut wanted: Vec<u64> = addresses
            .map(|avma| avma - avma % PAGE as u64)
            .filter(|start| !self.pages.borrow().contains_key(start))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(self.reads_left.get() as usize);
        if !wanted.is_empty() {
            self.read(wanted);
        }
    }

    fn read(&self, wanted: Vec<u64>) {
        let left = self.reads_left.get();
        self.reads_left
            .set(left.saturating_sub(wanted.len() as u32));
        let mut pages = self.pages.borrow_mut();
        pages.extend(wanted.iter().map(|start| (*start, None)));
        let found = self.process.read(wanted).unwrap_or_default();
        pages.extend(found.into_iter().map(|(start, bytes)| (start, Some(bytes))));
    }
}

/// A stack dump, and one word of process memory that links it to another stack.
pub(super) struct StackLink<'a> {
    dump: &'a StackDump<'a>,
    at: u64,
    word: u64,
}

impl<'a> StackLink<'a> {
    pub(super) fn read(
        dump: &'a StackDump<'a>,
        at: u64,
        memory: &ProcessMemories,
        pid: Pid,
    ) -> Option<StackLink<'a>> {
        let word = memory.within(pid, 1)?.read_u64(at)?;
        Some(StackLink { dump, at, word })
    }
}

impl Memory for StackLink<'_> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let link = || (avma == self.at).then_some(self.word);
        self.dump.read_u64(avma).or_else(link)
    }

    fn frame_pointer_chain(&self) -> Option<(u64, &[u64])> {
        self.dump.frame_pointer_chain()
    }
}

impl Memory for StackMemory {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        if !avma.is_multiple_of(8) {
            return None;
        }
        let within = (avma % PAGE as u64) as usize;
        let start = avma - within as u64;
        if !self.pages.borrow().contains_key(&start) {
            if self.reads_left.get() == 0 {
                return None;
            }
            self.prefetch(self.pages_from(start));
        }
        let pages = self.pages.borrow();
        let page = pages.get(&start)?.as_ref()?;
        let word = page.get(within..)?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
    }
}

#[cfg(test)]
mod tests;
