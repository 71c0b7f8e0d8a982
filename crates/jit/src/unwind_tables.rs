//! [`JitUnwindTables`]: unwind tables for the JIT code of live processes, used while recording.
//!
//! A sample later than the last read triggers a read of the jitdump. It contains all earlier
//! records, except those buffered by the runtime. Without a table, code is unwound as if
//! undescribed.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rprof_image::{Allowances, Patience, PatientCalls, Rate};
use rprof_launch::procfs::ClockOffsets;
use rprof_unwind::{Arch, UnwindTable};
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};

use crate::by_process::{JitMapping, JitProcesses};
use crate::jitdump::{JitUnwinding, LiveDump};
use crate::process_root::ProcessRoot;

/// Maximum number of processes with jitdumps.
const MAX_PROCESSES: usize = 32;

/// Maximum number of tables per jitdump, and of their `.eh_frame` bytes. At a limit, all are
/// dropped and rebuilt.
const MAX_TABLES: usize = 1 << 16;
const MAX_BYTES: usize = 16 << 20;

/// Read limits in bytes, per process and in total. Jitdumps are mostly code, and V8 compiles a few
/// MiB per second at startup.
const OF_ONE: Rate = Rate {
    most: 256 << 20,
    a_second: 8 << 20,
};
const OF_ALL: Rate = Rate {
    most: 512 << 20,
    a_second: 32 << 20,
};

/// Maximum bytes to read per sample: a few milliseconds.
const MAX_FOR_ONE_SAMPLE: u64 = 4 << 20;

/// Timeouts: all samples wait for a jitdump.
const PATIENCE: Patience = Patience {
    of_one: Duration::from_millis(if cfg!(test) { 60_000 } else { 100 }),
    free: Duration::from_millis(if cfg!(test) { 60_000 } else { 5 }),
    of_user: Rate {
        most: 1_000_000_000,
        a_second: 50_000_000,
    },
    of_all: Rate {
        most: 4_000_000_000,
        a_second: 200_000_000,
    },
};

/// Unwind tables from the jitdumps of live processes. Takes process events in time order.
#[derive(Debug, Default)]
pub struct JitUnwindTables {
    processes: JitProcesses,
    dumps: RefCell<FxHashMap<i32, Vec<Dump>>>,
    time: Cell<u64>,
    reading: RefCell<Reading>,
}

#[derive(Debug)]
struct Reading {
    left: Allowances,
    calls: PatientCalls,
    /// Samples without complete reads, because of a limit.
    put_off: u64,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            left: Allowances::new(OF_ONE, OF_ALL),
            calls: PatientCalls::new("rprof-jitdump", PATIENCE),
            put_off: 0,
        }
    }
}

#[derive(Debug)]
struct Dump {
    /// Locked while a thread reads, even after a timeout.
    source: Arc<Mutex<Source>>,
    /// `CLOCK_MONOTONIC` of the last read; 0 requests a read at once.
    read_at: u64,
    /// By function number and address.
    tables: FxHashMap<(u64, u64), Arc<UnwindTable>>,
    /// Bytes of `.eh_frame` of all `tables`.
    bytes: usize,
}

#[derive(Debug)]
enum Source {
    Named(PathBuf),
    /// Closed between reads.
    Known {
        path: PathBuf,
        root: ProcessRoot,
        live: Box<LiveDump>,
    },
    Unusable,
}

impl JitUnwindTables {
    /// Sets the time of the next samples, in ns of `CLOCK_MONOTONIC`.
    pub fn set_time(&self, time: u64) {
        self.time.set(time);
    }

    /// Handles an executable mapping.
    pub fn handle_mapped(&mut self, pid: i32, path: &[u8]) {
        let dumps = self.dumps.get_mut();
        let has_room = dumps.len() < MAX_PROCESSES || dumps.contains_key(&pid);
        if JitMapping::of(path) != Some(JitMapping::Jitdump) || !has_room {
            return;
        }
        let known = self.processes.jitdumps(pid).len();
        self.processes.handle_mapped(pid, path);
        if let Some(new) = self.processes.jitdumps(pid).get(known) {
            dumps.entry(pid).or_default().push(Dump::new(new));
        }
    }

    /// Handles a fork: the child shares its parent's code.
    pub fn handle_fork(&mut self, pid: i32, parent: i32) {
        // Forks matter only below a process with jitdumps.
        let dumps = self.dumps.get_mut();
        if !dumps.is_empty()
            && self
                .processes
                .lineage(parent)
                .any(|pid| dumps.contains_key(&pid))
        {
            self.processes.handle_fork(pid, parent);
        }
    }

    /// Forgets a process that ended or called exec.
    pub fn forget(&mut self, pid: i32) {
        self.processes.forget(pid);
        self.dumps.get_mut().remove(&pid);
    }

    /// Returns the number of samples without complete reads, because of a limit.
    #[must_use]
    pub fn put_off(&self) -> u64 {
        self.reading.borrow().put_off
    }

    /// Returns the number of reads that timed out or were refused.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.reading.borrow().calls.refused()
    }

    /// Returns the table for the code at an address, from the jitdumps of a process or its
    /// ancestors. Reads on if the sample is later than the last read.
    #[must_use]
    pub fn find(&self, arch: Arch, pid: i32, avma: u64) -> Option<Arc<UnwindTable>> {
        let mut dumps = self.dumps.borrow_mut();
        if dumps.is_empty() {
            return None;
        }
        let reading = &mut *self.reading.borrow_mut();
        self.processes.lineage(pid).find_map(|pid| {
            let of_process = dumps.get_mut(&pid)?.iter_mut();
            // The last mapped file is the current one.
            let found = of_process.map(|dump| dump.find(arch, pid, avma, self.time.get(), reading));
            found.flatten().last()
        })
    }
}

impl Dump {
    fn new(path: &Path) -> Dump {
        Dump {
            source: Arc::new(Mutex::new(Source::Named(path.to_owned()))),
            read_at: 0,
            tables: FxHashMap::default(),
            bytes: 0,
        }
    }

    fn find(
        &mut self,
        arch: Arch,
        pid: i32,
        avma: u64,
        time: u64,
        reading: &mut Reading,
    ) -> Option<Arc<UnwindTable>> {
        if self.read_at <= time {
            // The clock is read first, so that no record is missed.
            let now = monotonic_ns();
            // A missing file is retried for later samples, not for each frame.
            let is_all = self.read_on(pid, now, reading).unwrap_or(true);
            reading.put_off += u64::from(!is_all);
            // The next sample continues, not the next frame.
            self.read_at = if is_all { now } else { time.saturating_add(1) };
        }
        let source = self.source.try_lock().ok()?;
        let Source::Known { live, .. } = &*source else {
            return None;
        };
        let code = live.find(avma, time)?;
        if self.tables.len() >= MAX_TABLES || self.bytes >= MAX_BYTES {
            self.tables.clear();
            self.bytes = 0;
        }
        let bytes = &mut self.bytes;
        let make = || {
            *bytes += code.unwinding.eh_frame.len();
            Arc::new(code.unwinding.table(arch))
        };
        let key = (code.function, code.unwinding.start);
        Some(Arc::clone(self.tables.entry(key).or_insert_with(make)))
    }

    /// Reads new records. Returns true if none are left.
    fn read_on(&mut self, pid: i32, now: u64, reading: &mut Reading) -> Option<bool> {
        let most = reading.left.at(pid, now).min(MAX_FOR_ONE_SAMPLE);
        if matches!(*self.source.try_lock().ok()?, Source::Unusable) {
            return None;
        }
        let user = PatientCalls::user_of(pid.cast_unsigned());
        let source = Arc::clone(&self.source);
        let read = move || {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            source.read_on(pid, most)
        };
        let (bytes, is_all) = reading.calls.call(user, read)??;
        reading.left.spend(pid, bytes, now);
        Some(is_all)
    }
}

impl Source {
    /// Reads about `most` bytes of new records. Returns their number, and true if none are left.
    fn read_on(&mut self, pid: i32, most: u64) -> Option<(u64, bool)> {
        if let Source::Named(path) = self {
            let root = ProcessRoot::of_live(pid)?;
            let opened = root.open(path).map(|file| {
                let file = file?;
                LiveDump::new(&file).transpose()
            });
            *self = match opened {
                // Incomplete header.
                Ok(None) => return None,
                Ok(Some(Ok(Ok(live)))) => Source::Known {
                    path: std::mem::take(path),
                    root,
                    live: Box::new(live),
                },
                Ok(Some(_)) | Err(_) => Source::Unusable,
            };
        }
        let Source::Known { path, root, live } = self else {
            return None;
        };
        let read = match root.open(path) {
            // The known records stay valid.
            Ok(None) => return None,
            Ok(Some(file)) => live.read_on(&file, most).ok(),
            Err(_) => None,
        };
        if read.is_none() {
            *self = Source::Unusable;
        }
        read
    }
}

impl JitUnwinding<'_> {
    /// Builds an unwind table.
    #[must_use]
    pub fn table(&self, arch: Arch) -> UnwindTable {
        let end = self.start.saturating_add(self.size);
        let eh_frame = self.start.wrapping_add(self.eh_frame_offset);
        UnwindTable::of_jit_code(arch, self.eh_frame, eh_frame, self.start..end)
    }
}

/// Returns the kernel's CLOCK_MONOTONIC.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    now.saturating_add_signed(ClockOffsets::own().monotonic.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitdump::tests::DumpWriter;
    use std::os::unix::ffi::OsStrExt;

    fn write_dump(path: &Path, start: u64) {
        // A CIE without instructions, and an FDE with relative pointers (pcrel, sdata8).
        let cie = [
            &20u32.to_le_bytes()[..],
            &0u32.to_le_bytes(),
            b"\x01zR\0\x01\x78\x10\x01\x1c\x0c\x07\x08\x90\x01\0\0",
        ]
        .concat();
        let fde_at = cie.len() as u64;
        let pointer = start.wrapping_sub(start + 0x100 + fde_at + 8);
        let fde = [
            &24u32.to_le_bytes()[..],
            &(cie.len() as u32 + 4).to_le_bytes(),
            &pointer.to_le_bytes(),
            &0x100u64.to_le_bytes(),
            &[0; 8],
        ]
        .concat();
        let table = [&cie[..], &fde, b"\x01hdr"].concat();
        let mut writer = DumpWriter::new(false, 0);
        let len = table.len() as u64;
        writer.record(4, 1, &[len, 4, len], &table);
        writer.load(2, start, 0x100, 1, "made");
        std::fs::write(path, &writer.bytes).unwrap();
    }

    fn covers(tables: &JitUnwindTables, pid: i32, avma: u64) -> bool {
        tables.set_time(monotonic_ns());
        let table = tables.find(Arch::X86_64, pid, avma);
        table.is_some_and(|table| table.covers(avma))
    }

    #[test]
    fn children_have_the_tables_of_their_ancestors() {
        let folder = tempfile::tempdir().unwrap();
        let us = std::process::id() as i32;
        let mut tables = JitUnwindTables::default();
        assert!(!covers(&tables, us, 0x1010));
        // Two dumps of one process; the second is written late.
        let paths = [1, 2].map(|n| folder.path().join(format!("jit-{n}.dump")));
        for path in &paths {
            tables.handle_mapped(us, path.as_os_str().as_bytes());
        }
        write_dump(&paths[0], 0x1000);
        let (child, grandchild) = (i32::MAX - 1, i32::MAX);
        tables.handle_fork(child, us);
        tables.handle_fork(grandchild, child);
        for pid in [us, child, grandchild] {
            assert!(covers(&tables, pid, 0x1010), "{pid}");
            assert!(!covers(&tables, pid, 0x2010), "{pid}");
        }
        write_dump(&paths[1], 0x2000);
        for pid in [us, child, grandchild] {
            assert!(
                covers(&tables, pid, 0x1010) && covers(&tables, pid, 0x2010),
                "{pid}"
            );
        }
        // An exec drops the old code.
        tables.forget(child);
        assert!(!covers(&tables, child, 0x1010) && !covers(&tables, grandchild, 0x1010));
        assert!(covers(&tables, us, 0x1010));
        tables.forget(us);
        assert!(!covers(&tables, us, 0x1010));
    }

    #[test]
    fn forks_are_kept_only_below_a_process_with_a_jitdump() {
        let mut tables = JitUnwindTables::default();
        tables.handle_mapped(1, b"//anon");
        tables.handle_fork(2, 1);
        assert_eq!(tables.processes.lineage(2).count(), 1);
        for pid in 0..100 {
            tables.handle_mapped(pid, format!("/tmp/jit-{pid}.dump").as_bytes());
        }
        assert_eq!(tables.dumps.borrow().len(), MAX_PROCESSES);
        tables.handle_fork(200, 1);
        assert_eq!(tables.processes.lineage(200).count(), 2);
    }

    #[test]
    fn a_long_jitdump_is_read_bit_by_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-1.dump");
        write_dump(&path, 0x1000);
        // Many record headers, then another function.
        let mut bytes = std::fs::read(&path).unwrap();
        let head = [&4_u32.to_le_bytes()[..], &16_u32.to_le_bytes(), &[0; 8]].concat();
        bytes.extend(head.repeat((MAX_FOR_ONE_SAMPLE as usize / 16) * 3));
        std::fs::write(&path, bytes).unwrap();
        let us = std::process::id() as i32;
        let mut tables = JitUnwindTables::default();
        tables.handle_mapped(us, path.as_os_str().as_bytes());
        assert!(covers(&tables, us, 0x1010));
        assert_eq!(tables.put_off(), 1);
        for _ in 0..5 {
            assert!(covers(&tables, us, 0x1010));
        }
        let put_off = tables.put_off();
        assert!((2..5).contains(&put_off), "{put_off}");
    }
}
