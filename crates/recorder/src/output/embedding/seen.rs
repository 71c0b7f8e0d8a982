//! [`SeenMappings`]: skips mappings that were handled before.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use rprof_jit::JitMapping;
use rprof_processes::image_name;
use rprof_records::{Mapped, MmapIdentity};

/// Maximum number of mappings. At the limit all are forgotten, so that one process cannot use up
/// the space of others.
const MAX_SEEN: usize = 1 << 17;

/// Maximum number of files per process. No known program has a tenth of that.
const MAX_OF_A_PROCESS: u32 = 4096;

/// Maximum number of retries, through other processes, for a file that could not be opened.
const MAX_RETRIES: u8 = 16;

/// Fingerprints of handled mappings, so that a library mapped by thousands is inspected once.
#[derive(Debug, Default)]
pub(super) struct SeenMappings {
    /// Keyed hashes of path and identity of files.
    files: HashSet<u64>,
    /// Processes that may generate code, with a number that changes on exec.
    runtimes: HashMap<i32, u64>,
    next_runtime: u64,
    by_process: HashMap<i32, u32>,
    hasher: RandomState,
    left_out: u64,
    /// Number of retries, by fingerprint.
    retries: HashMap<u64, u8>,
}

impl SeenMappings {
    pub(super) fn is_new(&mut self, map: &Mapped<'_>) -> bool {
        let jit = JitMapping::of(&map.path);
        // A library is one file for all processes; a runtime's mappings are its own.
        let runtime = match jit {
            None => 0,
            Some(_) => match self.runtimes.get(&map.pid) {
                // Anonymous memory needs no second look, but a memfd may hold a program.
                Some(_) if jit.is_some_and(is_memory) => return false,
                Some(number) => *number,
                None => {
                    let number = self.add_runtime(map.pid);
                    if jit.is_some_and(is_memory) {
                        return true;
                    }
                    number
                }
            },
        };
        let name = image_name(&map.path, map.end());
        let fingerprint = self.fingerprint(name, map.identity, runtime);
        if self.files.contains(&fingerprint) {
            return false;
        }
        if self.files.len() == MAX_SEEN {
            self.files.clear();
            self.by_process.clear();
        }
        let files = self.by_process.entry(map.pid).or_default();
        if *files == MAX_OF_A_PROCESS {
            self.left_out += 1;
            return false;
        }
        *files += 1;
        self.files.insert(fingerprint)
    }

    fn fingerprint(&self, path: &[u8], identity: Option<MmapIdentity>, runtime: u64) -> u64 {
        self.hasher.hash_one((path, identity, runtime))
    }

    /// Forgets a file that could not be opened, so that the next process that maps it gives another
    /// chance.
    pub(super) fn retry(&mut self, path: &[u8], identity: Option<MmapIdentity>) {
        if JitMapping::of(path).is_some() {
            return;
        }
        let fingerprint = self.fingerprint(path, identity, 0);
        if self.retries.len() >= MAX_SEEN {
            self.retries.clear();
        }
        let retries = self.retries.entry(fingerprint).or_default();
        if *retries < MAX_RETRIES {
            *retries += 1;
            self.files.remove(&fingerprint);
        }
    }

    fn add_runtime(&mut self, pid: i32) -> u64 {
        if self.runtimes.len() == MAX_SEEN {
            self.runtimes.clear();
        }
        self.next_runtime += 1;
        self.runtimes.insert(pid, self.next_runtime);
        self.next_runtime
    }

    /// Forgets the runtime of a process on exec. Returns true if there was one.
    pub(super) fn forget(&mut self, pid: i32) -> bool {
        self.runtimes.remove(&pid).is_some()
    }

    pub(super) fn has_runtime(&self, pid: i32) -> bool {
        self.runtimes.contains_key(&pid)
    }

    /// Returns the number of mappings skipped because their process has too many.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn is_memory(mapping: JitMapping) -> bool {
    mapping != JitMapping::Jitdump && !mapping.may_be_image()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::Misc;
    use std::borrow::Cow;

    fn mapped(pid: i32, path: &str) -> Mapped<'_> {
        Mapped {
            pid,
            tid: pid,
            start: 0x1000,
            len: 0x1000,
            file_offset: 0,
            path: Cow::Borrowed(path.as_bytes()),
            identity: None,
            executable: true,
            kernel: false,
            prot_and_flags: None,
            misc: Misc(0),
        }
    }

    #[test]
    fn a_file_is_new_once_and_memory_once_for_each_process() {
        let mut seen = SeenMappings::default();
        for (pid, path, expected) in [
            (1, "/lib/a.so", true),
            (2, "/lib/a.so", false),
            (1, "//anon", true),
            (1, "//anon", false),
            (2, "//anon", true),
            (1, "/tmp/jit-1.dump", true),
            (1, "/tmp/jit-1.dump", false),
            (1, "/memfd:x (deleted)", true),
            (2, "/memfd:x (deleted)", true),
        ] {
            assert_eq!(seen.is_new(&mapped(pid, path)), expected, "{pid} {path}");
        }
        // The vdso of 64-bit and of 32-bit programs.
        for (start, expected) in [(0x7fff_0000_0000, true), (0xf7fc_0000, true), (0, false)] {
            let mut vdso = mapped(3, "[vdso]");
            vdso.start = start;
            assert_eq!(seen.is_new(&vdso), expected, "{start:#x}");
        }
        // Another program has its own mappings.
        assert!(seen.forget(1) && !seen.forget(1));
        assert!(seen.is_new(&mapped(1, "//anon")));
        assert!(seen.is_new(&mapped(1, "/tmp/jit-1.dump")));
        assert!(!seen.is_new(&mapped(1, "/lib/a.so")));
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_new_again_some_times() {
        let mut seen = SeenMappings::default();
        let looks = (1..100).filter(|pid| {
            let is_new = seen.is_new(&mapped(*pid, "/lib/a.so"));
            seen.retry(b"/lib/a.so", None);
            is_new
        });
        assert_eq!(looks.count(), 1 + usize::from(MAX_RETRIES));
    }

    /// Such as a process that maps one file under ever new names.
    #[test]
    fn a_process_with_countless_files_takes_no_place_of_others() {
        let mut seen = SeenMappings::default();
        for n in 0..20_000 {
            seen.is_new(&mapped(1, &format!("/f{n}")));
        }
        assert_eq!(seen.left_out(), 20_000 - u64::from(MAX_OF_A_PROCESS));
        assert!(seen.is_new(&mapped(2, "/g")));
        for pid in 3..100 {
            for n in 0..4096 {
                seen.is_new(&mapped(pid, &format!("/{pid}/f{n}")));
            }
        }
        assert!(seen.files.len() <= MAX_SEEN);
        assert!(seen.is_new(&mapped(2, "/h")));
    }
}
