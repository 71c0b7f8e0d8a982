//! [`MapsReader`]: reads mappings by query if available, else from the text.

use super::mapping::ExistingMapping;
use super::{query, text};
use crate::procfs::tasks::Procfs;
use rprof_records::BuildId;
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;

/// Device and inode of a file.
type FileId = ((u32, u32), u64);

/// Reads the executable mappings of processes, one process after another.
#[derive(Debug)]
pub struct MapsReader {
    proc: Procfs,
    /// Build-ids by file; `None` for a file without one.
    build_ids: HashMap<FileId, Option<BuildId>>,
    /// False once the kernel has refused `PROCMAP_QUERY`.
    has_query: bool,
    /// Buffer for the longest path.
    name: Vec<u8>,
    counts: MapsCounts,
}

/// Counts of a [`MapsReader`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapsCounts {
    /// Mappings whose file's build-id was cached.
    pub build_id_hits: u64,
    /// Mappings of new files, with a build-id query.
    pub build_id_misses: u64,
}

impl Default for MapsReader {
    fn default() -> MapsReader {
        MapsReader {
            proc: Procfs::default(),
            build_ids: HashMap::new(),
            has_query: true,
            name: vec![0; 4096],
            counts: MapsCounts::default(),
        }
    }
}

impl MapsReader {
    /// Creates a reader of `/proc`.
    pub fn new() -> MapsReader {
        MapsReader::default()
    }

    #[cfg(test)]
    fn of_text() -> MapsReader {
        MapsReader {
            has_query: false,
            ..MapsReader::default()
        }
    }

    /// Returns the hits and misses of the build-id cache.
    pub fn counts(&self) -> MapsCounts {
        self.counts
    }

    /// Appends the executable mappings of a process to `into`, by address. Kernel threads have
    /// none.
    ///
    /// The kernel reads the file for a build-id. If a file server (FUSE, network) never responds,
    /// this call blocks forever.
    ///
    /// # Errors
    /// Returns `EACCES` if the process belongs to another user, `ENOENT` or `ESRCH` if it has
    /// exited.
    pub fn read(&mut self, pid: u32, into: &mut Vec<ExistingMapping>) -> io::Result<()> {
        self.read_all(pid, true, into)
    }

    /// Appends executable mappings like [`read`](Self::read), but without build-ids. Reads no
    /// files.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn read_without_build_ids(
        &mut self,
        pid: u32,
        into: &mut Vec<ExistingMapping>,
    ) -> io::Result<()> {
        self.read_all(pid, false, into)
    }

    fn read_all(
        &mut self,
        pid: u32,
        build_ids: bool,
        into: &mut Vec<ExistingMapping>,
    ) -> io::Result<()> {
        let file = self.proc.open_maps(pid)?;
        if self.has_query {
            match self.query_all(&file, build_ids, into) {
                Ok(()) => return Ok(()),
                // An older kernel, or a sandbox.
                Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::PERM) => {
                    self.has_query = false;
                }
                // A kernel thread, or an exited process.
                Err(Errno::SRCH) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        text::read(file, into)
    }

    /// Queries all mappings. Restores `into` after an error.
    fn query_all(
        &mut self,
        file: &File,
        build_ids: bool,
        into: &mut Vec<ExistingMapping>,
    ) -> Result<(), Errno> {
        let mut at = 0;
        let before = into.len();
        loop {
            let mut mapping = match query::next(file, at, &mut self.name, false) {
                Ok(Some(mapping)) => mapping,
                Ok(None) => return Ok(()),
                Err(errno) => {
                    into.truncate(before);
                    return Err(errno);
                }
            };
            at = mapping.end;
            if mapping.inode != 0 && build_ids {
                mapping.build_id = self.build_id(file, &mapping);
            }
            into.push(mapping);
        }
    }

    /// Queries the kernel once for each file, because it reads the file.
    fn build_id(&mut self, file: &File, mapping: &ExistingMapping) -> Option<BuildId> {
        let key = (mapping.device, mapping.inode);
        if let Some(known) = self.build_ids.get(&key) {
            self.counts.build_id_hits += 1;
            return *known;
        }
        self.counts.build_id_misses += 1;
        let answer = query::next(file, mapping.start, &mut self.name, true);
        let answer = answer.ok().flatten().filter(|answer| {
            // The process may have changed the mapping meanwhile.
            (answer.start, answer.inode) == (mapping.start, mapping.inode)
        });
        let build_id = answer.and_then(|answer| answer.build_id);
        self.build_ids.insert(key, build_id);
        build_id
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapping::PROT_EXEC;
    use super::*;

    fn own(reader: &mut MapsReader) -> Vec<ExistingMapping> {
        let mut found = Vec::new();
        reader.read(std::process::id(), &mut found).unwrap();
        found
    }

    #[test]
    fn query_and_text_give_the_same_mappings() {
        let by_text = own(&mut MapsReader::of_text());
        let program = std::env::current_exe().unwrap();
        let here = tests_address();
        let found = by_text.iter().find(|m| (m.start..m.end).contains(&here));
        let found = found.expect("this very function is mapped");
        assert_eq!(found.path, program.into_os_string().into_encoded_bytes());
        assert!(found.inode != 0 && found.prot & PROT_EXEC != 0);
        assert!(by_text.iter().any(|m| m.path == b"[vdso]"));
        let mut asked = own(&mut MapsReader::new());
        for mapping in &mut asked {
            mapping.build_id = None;
        }
        // Only the text contains [vsyscall].
        let mut by_text = by_text;
        by_text.retain(|mapping| mapping.path != b"[vsyscall]");
        assert_eq!(asked, by_text);
    }

    fn tests_address() -> u64 {
        query_and_text_give_the_same_mappings as fn() as usize as u64
    }

    #[test]
    fn the_build_id_of_a_file_is_asked_for_once() {
        let mut reader = MapsReader::new();
        let first = own(&mut reader);
        let after_first = reader.counts();
        let second = own(&mut reader);
        let with_file = |found: &[ExistingMapping]| found.iter().filter(|m| m.inode != 0).count();
        assert!(with_file(&first) > 0);
        let counts = reader.counts();
        match reader.has_query {
            true => {
                assert!(after_first.build_id_misses > 0);
                assert_eq!(counts.build_id_misses, after_first.build_id_misses);
                let hits = counts.build_id_hits - after_first.build_id_hits;
                assert_eq!(hits, with_file(&second) as u64);
            }
            false => assert_eq!(counts, MapsCounts::default()),
        }
    }

    #[test]
    fn a_process_that_has_ended_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let error = MapsReader::new().read(pid, &mut Vec::new()).unwrap_err();
        assert!(matches!(
            error.raw_os_error(),
            Some(libc::ENOENT | libc::ESRCH)
        ));
    }
}
