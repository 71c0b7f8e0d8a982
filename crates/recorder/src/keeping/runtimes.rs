//! Perf maps and jitdumps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rprof_jit::places::{self, View};
use rprof_jit::{MapFile, Refusal, jitdump};
use rprof_perfdata::features::kept::compress;
use rprof_perfdata::{KeptFile, KeptKind};
use rprof_processes::ImageKind;
use rprof_records::Mmap2;

use super::{Told, shown};

/// Most processes that are followed.
const MOST_PROCESSES: usize = 4096;

/// Most files held open.
const MOST_HELD: usize = 128;

/// Most jitdumps of a process.
const MOST_DUMPS: usize = 16;

/// Rounds after which a file that was not there is looked for, at the latest.
const LONGEST_WAIT: u32 = 32;

/// Most bytes that are kept, compressed.
const MOST_KEPT: usize = 512 << 20;

/// The processes that may make code.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    living: BTreeMap<i32, Runtime>,
    /// Of those that have ended.
    ended: Vec<KeptFile<'static>>,
    held: usize,
    round: u32,
}

#[derive(Debug)]
struct Runtime {
    since: u64,
    view: View,
    /// Whether its paths are ours.
    is_from_here: bool,
    map: Wanted,
    dumps: Vec<Wanted>,
    /// Rounds from one look to the next.
    wait: u32,
}

/// A file, as soon as it is there.
#[derive(Debug)]
struct Wanted {
    path: PathBuf,
    file: Option<MapFile>,
    is_refused: bool,
}

impl Runtimes {
    /// Takes in a mapping; answers whether that is all there is to it: not where it may be of a
    /// program.
    pub(super) fn mapped(&mut self, map: &Mmap2<'_>, time: u64, told: &mut Told) -> bool {
        let is_dump = places::is_jitdump(&map.path);
        let kind = ImageKind::of_user(&map.path);
        let is_made = matches!(
            kind,
            ImageKind::Anonymous | ImageKind::Memfd | ImageKind::Heap | ImageKind::Stack
        );
        if !is_dump && !is_made {
            return false;
        }
        let known = self.living.contains_key(&map.pid);
        if !known && self.living.len() == MOST_PROCESSES {
            told.tell(format!(
                "more than {MOST_PROCESSES} processes may make code: perf maps of others are not kept"
            ));
            return is_dump;
        }
        let room = self.held < MOST_HELD;
        let new = || Runtime::new(map.pid, time);
        let runtime = self.living.entry(map.pid).or_insert_with(new);
        let path = Path::new(OsStr::from_bytes(&map.path));
        if is_dump
            && runtime.dumps.len() < MOST_DUMPS
            && !runtime.dumps.iter().any(|dump| dump.path == path)
        {
            runtime.dumps.push(Wanted::new(path.to_owned()));
        }
        if room && (!known || is_dump) {
            self.held += runtime.look(told);
        }
        // Memory with a file descriptor may hold a program as well.
        is_dump || kind != ImageKind::Memfd
    }

    /// Another program runs under this number.
    pub(super) fn replaced(&mut self, pid: i32, told: &mut Told) {
        if let Some(runtime) = self.living.remove(&pid) {
            self.end(pid, runtime, told);
        }
    }

    /// Looks for files that were not there yet, and lets go of those whose processes ended.
    pub(super) fn round(&mut self, told: &mut Told) {
        self.round = self.round.wrapping_add(1);
        let mut ended = Vec::new();
        for (pid, runtime) in &mut self.living {
            if !self.round.is_multiple_of(runtime.wait) {
                continue;
            }
            runtime.wait = (runtime.wait * 2).min(LONGEST_WAIT);
            if self.held < MOST_HELD {
                self.held += runtime.look(told);
            }
            if !Path::new("/proc").join(pid.to_string()).exists() {
                ended.push(*pid);
            }
        }
        for pid in ended {
            self.replaced(pid, told);
        }
    }

    /// All that there is to keep by now.
    pub(super) fn files(&mut self, told: &mut Told) -> Vec<KeptFile<'static>> {
        let mut files = std::mem::take(&mut self.ended);
        for (pid, runtime) in &mut self.living {
            runtime.look(told);
            runtime.put(*pid, &mut files, told);
        }
        self.held = self.living.values().map(Runtime::held).sum();
        files
    }

    fn end(&mut self, pid: i32, mut runtime: Runtime, told: &mut Told) {
        self.held = self.held.saturating_sub(runtime.held());
        runtime.look(told);
        runtime.put(pid, &mut self.ended, told);
    }
}

impl Runtime {
    fn new(pid: i32, since: u64) -> Runtime {
        // One that is gone already is taken for one of here.
        let living = places::living(pid);
        let is_from_here = living.is_none() || has_our_root(pid);
        let view = living.unwrap_or_else(|| places::from_here(pid));
        Runtime {
            since,
            map: Wanted::new(places::perf_map(view.pid)),
            dumps: Vec::new(),
            view,
            is_from_here,
            wait: 1,
        }
    }

    /// Opens what is there; answers how many files more are held.
    fn look(&mut self, told: &mut Told) -> usize {
        let before = self.held();
        for wanted in self.dumps.iter_mut().chain([&mut self.map]) {
            wanted.look(&self.view, self.is_from_here, told);
        }
        self.held() - before
    }

    fn held(&self) -> usize {
        let wanted = self.dumps.iter().chain([&self.map]);
        wanted.filter(|wanted| wanted.file.is_some()).count()
    }

    /// Keeps what the files hold by now.
    fn put(&self, pid: i32, out: &mut Vec<KeptFile<'static>>, told: &mut Told) {
        let dumps = self.dumps.iter().map(|dump| (KeptKind::JITDUMP, dump));
        for (kind, wanted) in dumps.chain([(KeptKind::PERF_MAP, &self.map)]) {
            let Some(bytes) = wanted.read(told) else {
                continue;
            };
            let bytes = match kind {
                KeptKind::JITDUMP => match jitdump::without_code(&bytes) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        wanted.tell(told, &error.to_string());
                        continue;
                    }
                },
                _ => bytes,
            };
            let Ok(compressed) = compress(&bytes) else {
                continue;
            };
            let kept: usize = out.iter().map(|file| file.compressed.len()).sum();
            if kept + compressed.len() > MOST_KEPT {
                wanted.tell(told, "the recording has more than enough of these already");
                continue;
            }
            out.push(KeptFile {
                kind,
                pid,
                since: self.since,
                device: (0, 0),
                inode: 0,
                build_id: Cow::Borrowed(&[]),
                path: Cow::Owned(wanted.path.as_os_str().as_bytes().to_vec()),
                len: bytes.len() as u64,
                compressed: Cow::Owned(compressed),
            });
        }
    }
}

impl Wanted {
    fn new(path: PathBuf) -> Wanted {
        Wanted {
            path,
            file: None,
            is_refused: false,
        }
    }

    /// Opens the file under its name, which may by now be that of another than the one held.
    fn look(&mut self, view: &View, is_from_here: bool, told: &mut Told) {
        if self.is_refused {
            return;
        }
        let mut found = Ok(None);
        for root in [Some(&*view.root), is_from_here.then_some(Path::new("/"))] {
            let Some(root) = root else { continue };
            if let Ok(None) = found {
                found = MapFile::open(root, &self.path, &view.owners);
            }
        }
        match found {
            Ok(Some(file)) => self.file = Some(file),
            Ok(None) => {}
            // It lost a race against the process's end.
            Err(Refusal::Unreadable(error)) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(refusal) => {
                self.is_refused = true;
                self.tell(told, &refusal.to_string());
            }
        }
    }

    fn read(&self, told: &mut Told) -> Option<Vec<u8>> {
        match self.file.as_ref()?.read() {
            Ok(bytes) => Some(bytes).filter(|bytes| !bytes.is_empty()),
            Err(refusal) => {
                self.tell(told, &refusal.to_string());
                None
            }
        }
    }

    fn tell(&self, told: &mut Told, why: &str) {
        let path = shown(self.path.as_os_str().as_bytes()).into_owned();
        told.tell(format!("{path} is not kept: {why}"));
    }
}

/// Whether a process sees the same files as we do.
fn has_our_root(pid: i32) -> bool {
    let link = |path: String| std::fs::read_link(path).ok();
    let namespace = |who: &str| link(format!("/proc/{who}/ns/mnt"));
    let pid = pid.to_string();
    namespace(&pid).is_some_and(|theirs| Some(theirs) == namespace("self"))
        && link(format!("/proc/{pid}/root")) == link("/proc/self/root".into())
}
