//! Perf maps and jitdumps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rprof_image::{Allowances, PatientCalls, Rate};
use rprof_jit::perf_map::{CopyError, copy_entries};
use rprof_jit::{AwaitedFile, JitMapping, LiveFiles, jitdump};
use rprof_launch::procfs::Procfs;
use rprof_perfdata::features::embedded::{Compressor, compress};
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_records::Mapped;

use super::notices::{NotEmbedded, Notice, Notices};
use super::patience::TO_OPEN;
use super::selection::Embedding;

/// Most processes that are followed.
const MOST_PROCESSES: usize = 4096;

/// Most files held open.
const MOST_HELD: usize = 128;

/// Rounds after which a file that was not there is looked for, at the latest.
const LONGEST_WAIT: u32 = 32;

/// Most bytes that are embedded, compressed. They are in memory until the recording's file ends.
const MOST_BYTES: usize = 64 << 20;

/// Most bytes that these expand to: readers have to.
const MOST_EXPANDED: u64 = 512 << 20;

/// Bytes that are read at once at most, and in a second on an average: of one process, which may execute
/// itself again and again, and of all.
const OF_ONE: Rate = Rate {
    most: 512 << 20,
    a_second: 2 << 20,
};
const OF_ALL: Rate = Rate {
    most: 1 << 30,
    a_second: 16 << 20,
};

/// Why a file that takes no room on its disk is not embedded.
const HOLES: &str = "it consists of holes, nearly";

/// The processes that may make code.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    /// Jitdumps keep their machine code, where there is room for it.
    with_code: bool,
    living: BTreeMap<i32, Runtime>,
    /// Files of processes that have ended.
    ended: Vec<EmbeddedFile<'static>>,
    held: usize,
    round: u32,
    reading: Reading,
}

/// Bytes that may still be read.
#[derive(Debug)]
struct Reading {
    left: Allowances,
    begin: Instant,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            left: Allowances::new(OF_ONE, OF_ALL),
            begin: Instant::now(),
        }
    }
}

impl Reading {
    /// Returns the bytes that may be read of a process's files.
    fn left_to(&self, pid: i32) -> u64 {
        self.left.at(pid, self.now())
    }

    /// Books bytes that were read.
    fn spend(&mut self, pid: i32, bytes: u64) {
        let now = self.now();
        self.left.spend(pid, bytes, now);
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}

#[derive(Debug)]
struct Runtime {
    since: u64,
    /// User whose process it is.
    user: u32,
    /// `None` once one of them did not answer.
    files: Option<LiveFiles>,
    /// Rounds from one look to the next.
    wait: u32,
}

impl Runtimes {
    pub(super) fn new(embedding: Embedding) -> Runtimes {
        Runtimes {
            with_code: embedding == Embedding::All,
            ..Runtimes::default()
        }
    }

    /// Handles an executable mapping. Returns true if it is JIT memory or a jitdump, and cannot be an
    /// ELF image as well.
    pub(super) fn handle_mapped(
        &mut self,
        map: &Mapped<'_>,
        time: u64,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) -> bool {
        let Some(mapping) = JitMapping::of(&map.path) else {
            return false;
        };
        let is_dump = mapping == JitMapping::Jitdump;
        let known = self.living.contains_key(&map.pid);
        if !known && self.living.len() == MOST_PROCESSES {
            notices.push(Notice::TooManyRuntimes {
                followed: MOST_PROCESSES,
            });
            return is_dump;
        }
        let room = self.held < MOST_HELD;
        if !room {
            notices.push(Notice::TooManyJitFiles { held: MOST_HELD });
        }
        let new = || Runtime::new(map.pid, time, calls);
        let runtime = self.living.entry(map.pid).or_insert_with(new);
        if let (true, Some(files)) = (is_dump, &mut runtime.files) {
            files.add_jitdump(&map.path);
        }
        if room && (!known || is_dump) {
            self.held += runtime.open(calls, notices);
        }
        !mapping.may_be_image()
    }

    /// Ends what is known of a process: another program runs under its number.
    pub(super) fn handle_exec(&mut self, pid: i32, calls: &PatientCalls, notices: &mut Notices) {
        if let Some(runtime) = self.living.remove(&pid) {
            self.end(pid, runtime, calls, notices);
        }
    }

    /// Looks for files that were not there yet, and reads and closes those whose processes ended.
    pub(super) fn round(&mut self, calls: &PatientCalls, notices: &mut Notices) {
        self.round = self.round.wrapping_add(1);
        let mut ended = Vec::new();
        let proc = Procfs::default();
        for (pid, runtime) in &mut self.living {
            if !self.round.is_multiple_of(runtime.wait) {
                continue;
            }
            runtime.wait = (runtime.wait * 2).min(LONGEST_WAIT);
            if self.held < MOST_HELD {
                self.held += runtime.open(calls, notices);
            }
            if !proc.exists(*pid as u32) {
                ended.push(*pid);
            }
        }
        for pid in ended {
            self.handle_exec(pid, calls, notices);
        }
    }

    /// Reads all that is to be embedded by now.
    pub(super) fn files(
        &mut self,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) -> Vec<EmbeddedFile<'static>> {
        let mut files = std::mem::take(&mut self.ended);
        for (pid, runtime) in &mut self.living {
            runtime.open(calls, notices);
            let with_code = self.with_code;
            runtime.put(
                *pid,
                with_code,
                &mut files,
                calls,
                notices,
                &mut self.reading,
            );
        }
        self.held = (self.living.values()).map(Runtime::held).sum();
        files
    }

    fn end(&mut self, pid: i32, mut runtime: Runtime, calls: &PatientCalls, notices: &mut Notices) {
        self.held = self.held.saturating_sub(runtime.held());
        runtime.open(calls, notices);
        let with_code = self.with_code;
        runtime.put(
            pid,
            with_code,
            &mut self.ended,
            calls,
            notices,
            &mut self.reading,
        );
    }
}

impl Runtime {
    fn new(pid: i32, since: u64, calls: &PatientCalls) -> Runtime {
        let user = PatientCalls::user_of(pid.cast_unsigned());
        Runtime {
            since,
            user,
            files: calls.call_within(user, TO_OPEN, move || LiveFiles::new(pid)),
            wait: 1,
        }
    }

    /// Returns the number of files that are held open.
    fn held(&self) -> usize {
        self.files.as_ref().map_or(0, LiveFiles::held)
    }

    /// Opens what is there. Returns how many files more are held.
    fn open(&mut self, calls: &PatientCalls, notices: &mut Notices) -> usize {
        let before = self.held();
        let Some(mut files) = self.files.take() else {
            return 0;
        };
        let open = move || {
            let mut refused = Vec::new();
            files.open(|path, refusal| refused.push((path.to_owned(), refusal.to_string())));
            (files, refused)
        };
        let Some((files, refused)) = calls.call_within(self.user, TO_OPEN, open) else {
            return 0;
        };
        for (path, why) in refused {
            refuse(&path, notices, NotEmbedded::Unusable(why));
        }
        self.files = Some(files);
        self.held().saturating_sub(before)
    }

    /// Reads what the files hold by now.
    fn put(
        &mut self,
        pid: i32,
        with_code: bool,
        out: &mut Vec<EmbeddedFile<'static>>,
        calls: &PatientCalls,
        notices: &mut Notices,
        reading: &mut Reading,
    ) {
        let dumps = self
            .files
            .as_ref()
            .map_or(0, |files| files.jitdumps().len());
        // The perf map comes last.
        for number in 0..=dumps {
            let Some(files) = self.files.take() else {
                return;
            };
            let most = reading.left_to(pid);
            let expanded: u64 = out.iter().map(|file| file.len).sum();
            let embedded: usize = out.iter().map(|file| file.compressed.len()).sum();
            let room = Room {
                expanded: MOST_EXPANDED.saturating_sub(expanded),
                compressed: MOST_BYTES.saturating_sub(embedded),
            };
            let pack = move || {
                let packed = pack_one(&files, number, most, with_code.then_some(room));
                (files, packed)
            };
            let Some((files, (kind, path, len, packed))) = calls.call(self.user, pack) else {
                return;
            };
            self.files = Some(files);
            let packed = match packed {
                Ok(Some(packed)) => packed,
                Ok(None) => continue,
                Err(reason) => {
                    refuse(&path, notices, reason);
                    continue;
                }
            };
            reading.spend(pid, len);
            if packed.bad_lines > 0 && packed.len > 0 {
                notices.push(Notice::BadLines {
                    path: path.clone(),
                    lines: packed.bad_lines,
                });
            }
            if packed.len == 0 {
                refuse(&path, notices, NotEmbedded::NoEntries);
                continue;
            }
            if !room.has(&packed) {
                refuse(&path, notices, NotEmbedded::NoRoom);
                continue;
            }
            out.push(EmbeddedFile {
                kind,
                pid,
                since: self.since,
                device: (0, 0),
                inode: 0,
                build_id: Cow::Borrowed(&[]),
                path: Cow::Owned(path.as_os_str().as_bytes().to_vec()),
                len: packed.len,
                compressed: Cow::Owned(packed.compressed),
            });
        }
    }
}

/// What may still be embedded, in bytes.
#[derive(Clone, Copy)]
struct Room {
    expanded: u64,
    compressed: usize,
}

impl Room {
    fn has(self, packed: &Packed) -> bool {
        packed.len <= self.expanded && packed.compressed.len() <= self.compressed
    }
}

/// Embedded part of a file.
struct Packed {
    /// Bytes that it expands to.
    len: u64,
    compressed: Vec<u8>,
    /// Lines of a perf map that are no entries.
    bad_lines: u64,
}

/// Kind, path and length of a file, and what is embedded of it: `None` if it is not there, or empty.
type Attempt = (
    EmbeddedKind,
    PathBuf,
    u64,
    Result<Option<Packed>, NotEmbedded>,
);

/// Reads and compresses one of the files, if it is no longer than `most` bytes: a jitdump by its number, or the perf map.
/// A jitdump has its machine code where there is room for that.
fn pack_one(files: &LiveFiles, number: usize, most: u64, for_code: Option<Room>) -> Attempt {
    let (kind, file) = match files.jitdumps().get(number) {
        Some(dump) => (EmbeddedKind::JITDUMP, dump),
        None => (EmbeddedKind::PERF_MAP, files.perf_map()),
    };
    let len = file.len();
    let packed = if file.is_mostly_holes() {
        Err(NotEmbedded::Unusable(HOLES.to_owned()))
    } else if len > most {
        Err(NotEmbedded::NoRoom)
    } else if kind == EmbeddedKind::JITDUMP {
        pack_jitdump(file, for_code)
    } else {
        pack_perf_map(file)
    };
    (kind, file.path().to_owned(), len, packed)
}

/// Reads and compresses the records of a jitdump that are needed: for names, lines and stacks all but the machine code, which
/// is most of it.
fn pack_jitdump(file: &AwaitedFile, for_code: Option<Room>) -> Result<Option<Packed>, NotEmbedded> {
    let Some(bytes) = file.read().map_err(unusable)? else {
        return Ok(None);
    };
    let pack = |bytes: &[u8]| {
        Some(Packed {
            len: bytes.len() as u64,
            compressed: compress(bytes).ok()?,
            bad_lines: 0,
        })
    };
    let without = jitdump::without_code(&bytes).map_err(unusable)?;
    let whole = for_code
        .filter(|room| bytes.len() as u64 <= room.expanded)
        .and_then(|room| pack(&bytes).filter(|packed| room.has(packed)));
    Ok(whole.or_else(|| pack(&without)))
}

/// Reads and compresses the entries of a perf map, piece by piece: it may be long.
fn pack_perf_map(file: &AwaitedFile) -> Result<Option<Packed>, NotEmbedded> {
    let Some(map) = file.file().filter(|_| !file.is_empty()) else {
        return Ok(None);
    };
    let mut bounded = Bounded(Compressor::new().map_err(unusable)?);
    let copied = copy_entries(map, &mut bounded).map_err(|error| match error {
        CopyError::Write(_) => NotEmbedded::NoRoom,
        error => unusable(error),
    })?;
    Ok(Some(Packed {
        len: copied.bytes,
        compressed: bounded.0.finish().map_err(unusable)?,
        bad_lines: copied.bad_lines,
    }))
}

fn unusable(error: impl std::fmt::Display) -> NotEmbedded {
    NotEmbedded::Unusable(error.to_string())
}

/// A compression that ends where there would be more than is embedded at all.
struct Bounded(Compressor);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.compressed() > MOST_BYTES {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn refuse(path: &Path, notices: &mut Notices, reason: NotEmbedded) {
    let path = path.to_owned();
    notices.push(Notice::NotEmbedded { path, reason });
}

#[cfg(test)]
mod tests {
    use super::super::patience::PATIENCE;
    use super::*;
    use rprof_records::Misc;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_perf_map_of_holes_is_not_read() {
        let us = std::process::id() as i32;
        let path = LiveFiles::new(us).perf_map().path().to_owned();
        let file = std::fs::File::create(&path).unwrap();
        file.write_all_at(b"1 2 three\n", 0).unwrap();
        let mut runtimes = Runtimes::default();
        let calls = PatientCalls::new("t", PATIENCE);
        let mut notices = Notices::default();
        let map = Mapped {
            pid: us,
            tid: us,
            start: 0x1000,
            len: 0x1000,
            file_offset: 0,
            path: b"//anon".as_slice().into(),
            identity: None,
            executable: true,
            kernel: false,
            prot_and_flags: None,
            misc: Misc::USER,
        };
        runtimes.handle_mapped(&map, 0, &calls, &mut notices);
        let short = runtimes.files(&calls, &mut notices).len();
        file.set_len(255 << 20).unwrap();
        let long = runtimes.files(&calls, &mut notices).len();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((short, long), (1, 0));
        let reason = NotEmbedded::Unusable(HOLES.to_owned());
        assert_eq!(notices.into_vec(), [Notice::NotEmbedded { path, reason }]);
    }
}
