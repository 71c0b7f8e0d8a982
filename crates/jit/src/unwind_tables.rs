//! What runtimes tell, while they run, of how to unwind the code that they make.
//!
//! A jitdump shows itself by being mapped. It is read on when a sample is met that is later than
//! what was read: what its runtime wrote before the sample was taken is there by then, unless it
//! waits in a buffer of the runtime. Then the code is unwound as any that nobody describes.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rprof_processes::Pid;
use rprof_unwind::{Arch, UnwindTable};
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};

use crate::{LiveDump, MapFile, places};

/// Most processes whose jitdumps are read.
const MOST_PROCESSES: usize = 32;

/// Most tables that are kept of a process, and how many bytes of sections they may be of.
const MOST_TABLES: usize = 1 << 16;
const MOST_BYTES: usize = 16 << 20;

/// Most forebears that are asked.
const MOST_FOREBEARS: usize = 8;

/// The jitdumps of living processes.
#[derive(Debug, Default)]
pub struct JitUnwindTables {
    dumps: RefCell<FxHashMap<i32, Dump>>,
    /// Time of the sample that is being unwound.
    time: Cell<u64>,
}

#[derive(Debug)]
struct Dump {
    source: Source,
    /// The clock when it was last read.
    read_at: u64,
    /// By the dump's number for the function, and its place.
    tables: FxHashMap<(u64, u64), Arc<UnwindTable>>,
    /// Bytes of the sections that they are of.
    bytes: usize,
}

#[derive(Debug)]
enum Source {
    /// Mapped, and not opened yet.
    Named(PathBuf),
    Open(Box<LiveDump>),
    /// It is none, or may not be read.
    Nothing,
    /// This process was forked from one with a jitdump.
    Parent(i32),
}

impl JitUnwindTables {
    /// The next samples are of this time.
    pub fn at(&self, time: u64) {
        self.time.set(time);
    }

    /// A process has mapped something executable.
    pub fn mapped(&mut self, pid: Pid, path: &[u8]) {
        let dumps = self.dumps.get_mut();
        if !places::is_jitdump(path) {
            return;
        }
        let known = dumps.get(&pid.0);
        let is_new = known.is_none_or(|dump| matches!(dump.source, Source::Parent(_)));
        if is_new && dumps.len() < MOST_PROCESSES {
            let path = PathBuf::from(OsStr::from_bytes(path));
            dumps.insert(pid.0, Dump::new(Source::Named(path)));
        }
    }

    /// A process has the code of the one that it was forked from.
    pub fn forked(&mut self, pid: Pid, parent: Pid) {
        let dumps = self.dumps.get_mut();
        if pid != parent && dumps.contains_key(&parent.0) && dumps.len() < MOST_PROCESSES {
            dumps.insert(pid.0, Dump::new(Source::Parent(parent.0)));
        }
    }

    /// A process ended, or has begun another program.
    pub fn forget(&mut self, pid: Pid) {
        self.dumps.get_mut().remove(&pid.0);
    }

    /// What is known of the code at an address.
    pub fn find(&self, arch: Arch, pid: Pid, avma: u64) -> Option<Arc<UnwindTable>> {
        let mut dumps = self.dumps.borrow_mut();
        let mut pid = pid.0;
        for _ in 0..MOST_FOREBEARS {
            let dump = dumps.get_mut(&pid)?;
            match dump.source {
                Source::Parent(parent) => pid = parent,
                _ => return dump.find(arch, pid, avma, self.time.get()),
            }
        }
        None
    }
}

impl Dump {
    fn new(source: Source) -> Dump {
        Dump {
            source,
            read_at: 0,
            tables: FxHashMap::default(),
            bytes: 0,
        }
    }

    fn find(&mut self, arch: Arch, pid: i32, avma: u64, time: u64) -> Option<Arc<UnwindTable>> {
        if self.read_at <= time {
            // Read before the file is: what comes in between is looked at twice.
            let now = monotonic_ns();
            // Where there is no file it is looked for again with samples that are taken later, not
            // for each frame until then.
            let is_all = self.read(pid).unwrap_or(true);
            self.read_at = if is_all { now } else { 0 };
        }
        let Source::Open(live) = &self.source else {
            return None;
        };
        let code = live.find(avma, time)?;
        let known = code.unwinding;
        if self.tables.len() >= MOST_TABLES || self.bytes >= MOST_BYTES {
            self.tables.clear();
            self.bytes = 0;
        }
        let bytes = &mut self.bytes;
        let make = || {
            *bytes += known.eh_frame.len();
            let (start, end) = (known.start, known.start.saturating_add(known.size));
            let at = start.wrapping_add(known.eh_frame_offset);
            let table = UnwindTable::of_made_code(arch, known.eh_frame, at, start..end);
            Arc::new(table)
        };
        let key = (code.function, known.start);
        Some(Arc::clone(self.tables.entry(key).or_insert_with(make)))
    }

    /// Reads what is new; answers whether that is all of it, nothing where there is no file.
    fn read(&mut self, pid: i32) -> Option<bool> {
        if let Source::Named(path) = &self.source {
            let view = places::living(pid)?;
            self.source = match MapFile::open(&view.root, path, &view.owners).map(|file| {
                let file = file?;
                LiveDump::new(file).transpose()
            }) {
                // It is there as soon as its header is.
                Ok(None) => return None,
                Ok(Some(Ok(Ok(live)))) => Source::Open(Box::new(live)),
                Ok(Some(_)) | Err(_) => Source::Nothing,
            };
        }
        let Source::Open(live) = &mut self.source else {
            return None;
        };
        match live.read_on() {
            Ok(is_all) => Some(is_all),
            Err(_) => {
                self.source = Source::Nothing;
                None
            }
        }
    }
}

/// The clock that samples are stamped with, in ns.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
