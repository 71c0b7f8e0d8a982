//! [`Programs`]: programs with and without the preload library.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::{Object, ObjectSymbol};
use rprof_image::ImageFile;
use rprof_preload::FILE_NAME;
use rprof_records::ProcessEvent;
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of mappings of the library in one process: it has one executable segment.
const MAX_RANGES: usize = 8;

/// Maximum number of executable files that are searched for allocators.
const MAX_FILES: usize = 64;

/// Functions of allocators that are linked into a program under names of their own: jemalloc of
/// Rust, jemalloc with a prefix, mimalloc, tcmalloc, snmalloc and rpmalloc. No library can interpose
/// calls within a program.
const ALLOCATORS: [&str; 6] = [
    "_rjem_malloc",
    "je_malloc",
    "mi_malloc",
    "tc_malloc",
    "sn_malloc",
    "rpmalloc",
];

/// Programs of the recorded processes: an exec begins a program.
#[derive(Debug, Default)]
pub(super) struct Programs {
    processes: FxHashMap<i32, Process>,
    loaded: u64,
    unloaded: Count,
    own_malloc: Count,
    /// Executable files of programs that loaded the library and use its `malloc`, with the number of
    /// their runs and the first name.
    files: FxHashMap<Box<[u8]>, (u64, String)>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    threads: FxHashSet<i32>,
    name: String,
    /// Addresses of the library's code.
    library: Vec<Range<u64>>,
    /// Path of the executable file, which an exec maps first.
    file: Option<Box<[u8]>>,
    /// True from an exec until the library reports itself.
    is_awaited: bool,
}

#[derive(Debug, Default)]
struct Count {
    number: u64,
    first: Option<String>,
}

impl Count {
    fn add(&mut self, name: &str) {
        self.number += 1;
        self.first.get_or_insert_with(|| name.to_owned());
    }
}

impl Programs {
    pub(super) fn handle(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Mapped(mapped) if !mapped.kernel && is_library(&mapped.path) => {
                let process = self.processes.entry(mapped.pid).or_default();
                if process.library.len() < MAX_RANGES {
                    process.library.push(mapped.start..mapped.end());
                }
            }
            ProcessEvent::Mapped(mapped) if !mapped.kernel => {
                let process = self.processes.get_mut(&mapped.pid);
                if let Some(process) = process.filter(|one| one.is_awaited && one.file.is_none()) {
                    process.file = Some(mapped.path.as_ref().into());
                }
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } => {
                if pid != parent_pid {
                    let parent = self.processes.get(parent_pid).cloned().unwrap_or_default();
                    let child = Process {
                        threads: FxHashSet::default(),
                        is_awaited: false,
                        ..parent
                    };
                    self.processes.insert(*pid, child);
                }
                self.processes.entry(*pid).or_default().threads.insert(*tid);
            }
            ProcessEvent::Found { pid, tid, .. } => {
                self.processes.entry(*pid).or_default().threads.insert(*tid);
            }
            ProcessEvent::Executed { pid, name, .. } => {
                let program = Process {
                    threads: FxHashSet::from_iter([*pid]),
                    name: String::from_utf8_lossy(name).into_owned(),
                    library: Vec::new(),
                    file: None,
                    is_awaited: true,
                };
                if let Some(before) = self.processes.insert(*pid, program) {
                    self.judge(&before);
                }
            }
            _ => {}
        }
    }

    /// Removes a thread. Returns true if it was the last one of its process.
    pub(super) fn end(&mut self, pid: i32, tid: i32) -> bool {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads.remove(&tid);
            if !process.threads.is_empty() {
                return false;
            }
        }
        if let Some(process) = self.processes.remove(&pid) {
            self.judge(&process);
        }
        true
    }

    fn judge(&mut self, program: &Process) {
        if program.is_awaited {
            self.unloaded.add(&program.name);
        }
    }

    /// Notes that the library was loaded in a process.
    pub(super) fn load(&mut self, pid: i32, own_malloc: bool) {
        let process = self.processes.entry(pid).or_default();
        if std::mem::replace(&mut process.is_awaited, false) {
            self.loaded += 1;
            if own_malloc {
                self.own_malloc.add(&process.name);
            } else if let Some(file) = &process.file
                && (self.files.len() < MAX_FILES || self.files.contains_key(file))
            {
                let new = || (0, process.name.clone());
                self.files.entry(file.clone()).or_insert_with(new).0 += 1;
            }
        }
    }

    /// Returns true if an address belongs to the library's code.
    pub(super) fn is_library(&self, pid: i32, address: u64) -> bool {
        let process = self.processes.get(&pid);
        process.is_some_and(|one| one.library.iter().any(|range| range.contains(&address)))
    }

    /// Ends the recording: programs that still run are judged, and their files are searched for
    /// allocators.
    pub(super) fn finish(&mut self) {
        for (file, (runs, name)) in std::mem::take(&mut self.files) {
            if has_linked_allocator(Path::new(OsStr::from_bytes(&file))) {
                self.own_malloc.number += runs;
                self.own_malloc.first.get_or_insert(name);
            }
        }
        for (_, process) in std::mem::take(&mut self.processes) {
            self.judge(&process);
        }
    }

    /// Returns the number of programs that loaded the library, that did not, and that have their
    /// own `malloc`.
    pub(super) fn count(&self) -> (u64, u64, u64) {
        (self.loaded, self.unloaded.number, self.own_malloc.number)
    }

    pub(super) fn first_unloaded(&self) -> Option<String> {
        self.unloaded.first.clone()
    }

    pub(super) fn first_own_malloc(&self) -> Option<String> {
        self.own_malloc.first.clone()
    }
}

/// Returns true if a program defines a function of [`ALLOCATORS`]. A stripped program has no names.
fn has_linked_allocator(path: &Path) -> bool {
    let Ok(file) = ImageFile::open(path) else {
        return false;
    };
    let parsed = object::File::parse(file.bytes());
    parsed.is_ok_and(|elf| {
        let is_one = |name: &str| ALLOCATORS.contains(&name);
        (elf.symbols().chain(elf.dynamic_symbols()))
            .any(|symbol| symbol.is_definition() && symbol.name().is_ok_and(is_one))
    })
}

fn is_library(path: &[u8]) -> bool {
    path.strip_suffix(FILE_NAME.as_bytes())
        .is_some_and(|folder| folder.ends_with(b"/"))
}
