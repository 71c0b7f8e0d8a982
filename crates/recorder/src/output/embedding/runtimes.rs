//! [`Runtimes`]: copies of perf maps and jitdumps.
//!
//! Files are copied while their processes live, again after growth, and a last time at the end of
//! the process or the recording. No file stays open in between.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rprof_image::{Allowances, FileVersion, PatientCalls, Rate};
use rprof_jit::perf_map::{CopyError, copy_entries};
use rprof_jit::{JitMapping, LiveFiles, MapFile, jitdump};
use rprof_launch::procfs::Procfs;
use rprof_perfdata::features::embedded::{Compressor, compress};
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_records::Mapped;

use super::notices::{NotEmbedded, Notice, Notices};
use super::selection::{Embedding, TO_OPEN};

const MAX_PROCESSES: usize = 4096;

/// Maximum number of rounds between two checks of a file.
const LONGEST_WAIT: u32 = 32;

/// Maximum bytes of compressed copies. They stay in memory until the output file ends.
const MAX_BYTES: usize = 64 << 20;

/// Maximum bytes after decompression, which readers must handle.
const MAX_EXPANDED: u64 = 512 << 20;

/// Limits on bytes read (burst, and per second): per process, which may exec repeatedly, and in
/// total.
const OF_ONE: Rate = Rate {
    most: 512 << 20,
    a_second: 2 << 20,
};
const OF_ALL: Rate = Rate {
    most: 1 << 30,
    a_second: 16 << 20,
};

/// A file is copied again after growth by this fraction (1 in 4), or at each change if it is short.
/// Later growth may be lost with the process. The total work is some five copies.
const GROWN: u64 = 4;
const SHORT: u64 = 64 << 10;

const HOLES: &str = "nearly all of it is holes";

/// Processes that may generate code.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    /// True if jitdumps keep their machine code, as far as space allows.
    with_code: bool,
    living: BTreeMap<i32, Runtime>,
    ended: Vec<EmbeddedFile<'static>>,
    round: u32,
    reading: Reading,
}

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
    fn left_to(&self, pid: i32) -> u64 {
        self.left.at(pid, self.now())
    }

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
    user: u32,
    /// `None` once a file of it timed out.
    files: Option<LiveFiles>,
    copies: BTreeMap<PathBuf, Copied>,
    wait: u32,
}

#[derive(Debug)]
struct Copied {
    kind: EmbeddedKind,
    /// State and length of the file when it was copied.
    version: FileVersion,
    file_len: u64,
    packed: Packed,
}

impl Runtimes {
    pub(super) fn new(embedding: Embedding) -> Runtimes {
        Runtimes {
            with_code: embedding == Embedding::All,
            ..Runtimes::default()
        }
    }

    /// Handles an executable mapping. Returns true for JIT memory or a jitdump that cannot be an
    /// ELF image.
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
        if !known && self.living.len() == MAX_PROCESSES {
            notices.push(Notice::TooManyRuntimes {
                followed: MAX_PROCESSES,
            });
            return is_dump;
        }
        let new = || Runtime::new(map.pid, time, calls);
        let runtime = self.living.entry(map.pid).or_insert_with(new);
        if let (true, Some(files)) = (is_dump, &mut runtime.files) {
            files.add_jitdump(&map.path);
        }
        if !known || is_dump {
            self.look(map.pid, Look::IfGrown, calls, notices);
        }
        !mapping.may_be_image()
    }

    pub(super) fn handle_exec(&mut self, pid: i32, calls: &PatientCalls, notices: &mut Notices) {
        if self.living.contains_key(&pid) {
            self.look(pid, Look::AtEnd, calls, notices);
            if let Some(runtime) = self.living.remove(&pid) {
                self.ended.extend(runtime.embedded(pid, notices));
            }
        }
    }

    pub(super) fn handle_ended(&mut self, pid: i32, calls: &PatientCalls, notices: &mut Notices) {
        if has_ended(&Procfs::default(), pid) {
            self.handle_exec(pid, calls, notices);
        }
    }

    /// Checks for new and grown files, and finishes the runtimes of ended processes.
    pub(super) fn round(&mut self, calls: &PatientCalls, notices: &mut Notices) {
        self.round = self.round.wrapping_add(1);
        let round = self.round;
        let is_due = |runtime: &Runtime| round.is_multiple_of(runtime.wait);
        let due: Vec<i32> = (self.living.iter())
            .filter_map(|(pid, runtime)| is_due(runtime).then_some(*pid))
            .collect();
        let proc = Procfs::default();
        for pid in due {
            if has_ended(&proc, pid) {
                self.handle_exec(pid, calls, notices);
                continue;
            }
            let has_changed = self.look(pid, Look::IfGrown, calls, notices);
            if let Some(runtime) = self.living.get_mut(&pid) {
                runtime.wait = match has_changed {
                    true => 1,
                    false => (runtime.wait * 2).min(LONGEST_WAIT),
                };
            }
        }
    }

    pub(super) fn files(
        &mut self,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) -> Vec<EmbeddedFile<'static>> {
        let living: Vec<i32> = self.living.keys().copied().collect();
        for pid in &living {
            self.look(*pid, Look::AtEnd, calls, notices);
        }
        let mut files = std::mem::take(&mut self.ended);
        for (pid, runtime) in &self.living {
            files.extend(runtime.embedded(*pid, notices));
        }
        files
    }

    /// Copies the changed files of a process. Returns true if a file has changed.
    fn look(&mut self, pid: i32, look: Look, calls: &PatientCalls, notices: &mut Notices) -> bool {
        let mut has_changed = false;
        let files = |runtime: &Runtime| runtime.files.as_ref().map_or(0, LiveFiles::jitdumps);
        let dumps = self.living.get(&pid).map_or(0, files);
        // The perf map comes last.
        for number in 0..=dumps {
            let room = self.room();
            let most = self.reading.left_to(pid);
            let Some(runtime) = self.living.get_mut(&pid) else {
                return has_changed;
            };
            let Some(mut files) = runtime.files.take() else {
                return has_changed;
            };
            let is_dump = number < dumps;
            let path = files.path(number).to_owned();
            let before = runtime.copies.get(&path);
            let before = before.map(|copied| (copied.version, copied.file_len));
            // A new copy replaces the old one.
            let room = match runtime.copies.get(&path) {
                Some(copied) => room.with(&copied.packed),
                None => room,
            };
            let for_code = self.with_code.then_some(room);
            let pack = move || {
                let packed = look_at(&mut files, number, look, before, most, for_code);
                (files, packed)
            };
            let Some((files, found)) = calls.call(runtime.user, pack) else {
                return has_changed;
            };
            runtime.files = Some(files);
            let (file_len, version, packed) = match found {
                Found::Nothing => continue,
                Found::Changed => {
                    has_changed = true;
                    continue;
                }
                Found::Refused(reason) => {
                    refuse(&path, notices, reason);
                    continue;
                }
                Found::Packed {
                    file_len,
                    version,
                    packed,
                } => (file_len, version, packed),
            };
            has_changed = true;
            let packed = match packed {
                Ok(packed) => packed,
                Err(reason) => {
                    refuse(&path, notices, reason);
                    continue;
                }
            };
            self.reading.spend(pid, file_len);
            if packed.len == 0 {
                if look == Look::AtEnd {
                    refuse(&path, notices, NotEmbedded::NoEntries);
                }
                continue;
            }
            if !room.has(&packed) {
                refuse(&path, notices, NotEmbedded::NoRoom);
                continue;
            }
            let kind = match is_dump {
                true => EmbeddedKind::JITDUMP,
                false => EmbeddedKind::PERF_MAP,
            };
            let copied = Copied {
                kind,
                version,
                file_len,
                packed,
            };
            runtime.copies.insert(path, copied);
        }
        has_changed
    }

    fn room(&self) -> Room {
        let copies = self
            .living
            .values()
            .flat_map(|runtime| runtime.copies.values());
        let sizes = copies.map(|copied| (copied.packed.len, copied.packed.compressed.len()));
        let ended = self
            .ended
            .iter()
            .map(|file| (file.len, file.compressed.len()));
        let all = Room {
            expanded: MAX_EXPANDED,
            compressed: MAX_BYTES,
        };
        sizes
            .chain(ended)
            .fold(all, |room, (len, compressed)| Room {
                expanded: room.expanded.saturating_sub(len),
                compressed: room.compressed.saturating_sub(compressed),
            })
    }
}

/// Returns true if a process has ended, even as a zombie.
fn has_ended(proc: &Procfs, pid: i32) -> bool {
    let Ok(pid) = u32::try_from(pid) else {
        return true;
    };
    // Other threads may continue without the first one.
    proc.stat(pid).is_none_or(|stat| stat.has_ended) && proc.thread_ids(pid).len() <= 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    IfGrown,
    AtEnd,
}

impl Runtime {
    fn new(pid: i32, since: u64, calls: &PatientCalls) -> Runtime {
        let user = PatientCalls::user_of(pid.cast_unsigned());
        Runtime {
            since,
            user,
            files: calls.call_within(user, TO_OPEN, move || LiveFiles::new(pid)),
            copies: BTreeMap::new(),
            wait: 1,
        }
    }

    fn embedded(
        &self,
        pid: i32,
        notices: &mut Notices,
    ) -> impl Iterator<Item = EmbeddedFile<'static>> + use<> {
        for (path, copied) in &self.copies {
            if copied.packed.bad_lines > 0 {
                notices.push(Notice::BadLines {
                    path: path.clone(),
                    lines: copied.packed.bad_lines,
                });
            }
        }
        let (dumps, maps): (Vec<_>, Vec<_>) =
            (self.copies.iter()).partition(|(_, copied)| copied.kind == EmbeddedKind::JITDUMP);
        let file = |(path, copied): (&PathBuf, &Copied)| EmbeddedFile {
            kind: copied.kind,
            pid,
            since: self.since,
            device: (0, 0),
            inode: 0,
            build_id: Cow::Borrowed(&[]),
            path: Cow::Owned(path.as_os_str().as_bytes().to_vec()),
            len: copied.packed.len,
            compressed: Cow::Owned(copied.packed.compressed.clone()),
        };
        let files: Vec<_> = dumps.into_iter().chain(maps).map(file).collect();
        files.into_iter()
    }
}

#[derive(Clone, Copy)]
struct Room {
    expanded: u64,
    compressed: usize,
}

impl Room {
    /// Adds the space of a copy that will be replaced.
    fn with(self, packed: &Packed) -> Room {
        Room {
            expanded: self.expanded.saturating_add(packed.len),
            compressed: self.compressed.saturating_add(packed.compressed.len()),
        }
    }

    fn has(self, packed: &Packed) -> bool {
        packed.len <= self.expanded && packed.compressed.len() <= self.compressed
    }
}

#[derive(Debug)]
struct Packed {
    /// Length after decompression.
    len: u64,
    compressed: Vec<u8>,
    bad_lines: u64,
}

enum Found {
    /// It is missing, empty or unchanged.
    Nothing,
    /// It has grown, but not enough for another copy.
    Changed,
    Refused(NotEmbedded),
    /// It was copied, or copying failed.
    Packed {
        file_len: u64,
        version: FileVersion,
        packed: Result<Packed, NotEmbedded>,
    },
}

/// Copies a file of at most `most` bytes if it has changed enough since `before`. A jitdump keeps
/// its machine code if there is space.
fn look_at(
    files: &mut LiveFiles,
    number: usize,
    look: Look,
    before: Option<(FileVersion, u64)>,
    most: u64,
    for_code: Option<Room>,
) -> Found {
    let is_dump = number < files.jitdumps();
    let file = match files.open(number) {
        Ok(Some(file)) => file,
        Ok(None) => return Found::Nothing,
        Err(refusal) => return Found::Refused(NotEmbedded::Unusable(refusal.to_string())),
    };
    let (version, file_len) = (file.version(), file.len().unwrap_or(u64::MAX));
    if file_len == 0 {
        return Found::Nothing;
    }
    if let Some((known, known_len)) = before {
        if known == version {
            return Found::Nothing;
        }
        let has_grown = |len: u64| file_len < len || file_len - len >= len / GROWN;
        if look == Look::IfGrown && file_len > SHORT && !has_grown(known_len) {
            return Found::Changed;
        }
    }
    let packed = if file.is_mostly_holes() {
        Err(NotEmbedded::Unusable(HOLES.to_owned()))
    } else if file_len > most {
        Err(NotEmbedded::NoRoom)
    } else if is_dump {
        pack_jitdump(&file, for_code)
    } else {
        pack_perf_map(&file)
    };
    Found::Packed {
        file_len,
        version,
        packed,
    }
}

/// Reads and compresses a jitdump. Keeps its machine code only if `for_code` has space: names,
/// lines and stacks do not need it.
fn pack_jitdump(file: &MapFile, for_code: Option<Room>) -> Result<Packed, NotEmbedded> {
    let mut bytes = file.read().map_err(unusable)?;
    jitdump::to_kernel_clock(&mut bytes, file.clock_ahead());
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
    let packed = whole.or_else(|| pack(&without));
    packed.ok_or_else(|| unusable("it cannot be compressed"))
}

/// Reads and compresses the entries of a perf map piecewise, because it may be long.
fn pack_perf_map(map: &MapFile) -> Result<Packed, NotEmbedded> {
    let mut bounded = Bounded(Compressor::new().map_err(unusable)?);
    let copied = copy_entries(map, &mut bounded).map_err(|error| match error {
        CopyError::Write(_) => NotEmbedded::NoRoom,
        error => unusable(error),
    })?;
    Ok(Packed {
        len: copied.bytes,
        compressed: bounded.0.finish().map_err(unusable)?,
        bad_lines: copied.bad_lines,
    })
}

fn unusable(error: impl std::fmt::Display) -> NotEmbedded {
    NotEmbedded::Unusable(error.to_string())
}

/// A compressor that fails beyond the total limit.
struct Bounded(Compressor);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.compressed() > MAX_BYTES {
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
    use super::super::selection::PATIENCE;
    use super::*;
    use rprof_records::Misc;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_perf_map_of_holes_is_not_read() {
        let us = std::process::id() as i32;
        let path = LiveFiles::new(us).path(0).to_owned();
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
        // The earlier copy is kept.
        assert_eq!((short, long), (1, 1));
        let reason = NotEmbedded::Unusable(HOLES.to_owned());
        assert_eq!(notices.into_vec(), [Notice::NotEmbedded { path, reason }]);
    }
}
