//! What a process that runs already has mapped.
//!
//! perf events tell of mappings as they are made. Of those made before, `/proc/PID/maps` tells, in
//! one of two ways:
//!
//! - Linux 6.11 answers questions about it (`PROCMAP_QUERY`), with the file's build-id in the
//!   answer. Only executable mappings are asked for, so a process with ten thousand others
//!   costs no more than one with none.
//! - Before, its text is read (`text`).
//!
//! Names are as in MMAP2 records: `//anon` for memory without a file, whatever name it was given.

mod query;
mod text;

use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// `MAP_SHARED`, `MAP_PRIVATE` and `MAP_HUGETLB` (mmap(2)).
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;
const MAP_HUGETLB: u32 = 0x40000;

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC` (mmap(2)).
const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;

/// An executable mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExistingMapping {
    /// First address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// File offset in bytes.
    pub offset: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// Device of the file: major and minor.
    pub device: (u32, u32),
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file's build-id, where the kernel tells it.
    pub build_id: Option<Vec<u8>>,
    /// As an MMAP2 record would have it.
    pub path: Vec<u8>,
}

/// Device and inode.
type FileId = ((u32, u32), u64);

/// Reads the mappings of processes, one process after another.
#[derive(Debug)]
pub struct MapsReader {
    proc: PathBuf,
    /// Of files seen before.
    build_ids: HashMap<FileId, Option<Vec<u8>>>,
    /// Whether the kernel answers questions.
    answers: bool,
    /// Room for names, which a path may fill.
    name: Vec<u8>,
}

impl Default for MapsReader {
    fn default() -> MapsReader {
        MapsReader {
            proc: PathBuf::from("/proc"),
            build_ids: HashMap::new(),
            answers: true,
            name: vec![0; 4096],
        }
    }
}

impl MapsReader {
    /// A reader that has read nothing yet.
    pub fn new() -> MapsReader {
        MapsReader::default()
    }

    /// Without questions, as before Linux 6.11.
    #[cfg(test)]
    fn of_text(proc: &std::path::Path) -> MapsReader {
        MapsReader {
            proc: proc.to_owned(),
            answers: false,
            ..MapsReader::default()
        }
    }

    /// Appends the executable mappings of a process, in the order of their addresses. A process of
    /// the kernel has none.
    ///
    /// # Errors
    /// `EACCES` when the process is another user's, `ENOENT` or `ESRCH` when it has ended.
    pub fn read(&mut self, pid: u32, into: &mut Vec<ExistingMapping>) -> io::Result<()> {
        let file = File::open(self.path(pid))?;
        if self.answers {
            match self.ask(&file, into) {
                Ok(()) => return Ok(()),
                // No such question: an older kernel, or a sandbox that knows none.
                Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::PERM) => {
                    self.answers = false;
                }
                // A process of the kernel, or one that has ended but is still there.
                Err(Errno::SRCH) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        text::read(file, into)
    }

    fn path(&self, pid: u32) -> PathBuf {
        self.proc.join(pid.to_string()).join("maps")
    }

    /// Asks for one mapping after the other.
    fn ask(&mut self, file: &File, into: &mut Vec<ExistingMapping>) -> Result<(), Errno> {
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
            if mapping.inode != 0 {
                mapping.build_id = self.build_id(file, &mapping);
            }
            into.push(mapping);
        }
    }

    /// The build-id of a mapped file, asked for once.
    fn build_id(&mut self, file: &File, mapping: &ExistingMapping) -> Option<Vec<u8>> {
        let known = self.build_ids.entry((mapping.device, mapping.inode));
        let name = &mut self.name;
        let ask = || {
            let asked = query::next(file, mapping.start, name, true).ok()??;
            let is_same = (asked.start, asked.inode) == (mapping.start, mapping.inode);
            asked.build_id.filter(|_| is_same)
        };
        known.or_insert_with(ask).clone()
    }
}

/// A name from /proc as MMAP2 records have it. Names that a program gave to memory without a
/// file stand in /proc only.
fn mmap2_name(name: &[u8]) -> Vec<u8> {
    match name {
        b"" => b"//anon".to_vec(),
        name if name.starts_with(b"[anon") => b"//anon".to_vec(),
        name => name.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn own(mut reader: MapsReader) -> Vec<ExistingMapping> {
        let mut found = Vec::new();
        reader.read(std::process::id(), &mut found).unwrap();
        found
    }

    #[test]
    fn both_ways_tell_the_same() {
        let by_text = own(MapsReader::of_text(Path::new("/proc")));
        let program = std::env::current_exe().unwrap();
        let here = tests_address();
        let found = by_text.iter().find(|m| (m.start..m.end).contains(&here));
        let found = found.expect("this very function is mapped");
        assert_eq!(found.path, program.into_os_string().into_encoded_bytes());
        assert!(found.inode != 0 && found.prot & PROT_EXEC != 0);
        assert!(by_text.iter().any(|m| m.path == b"[vdso]"));
        let mut asked = own(MapsReader::new());
        for mapping in &mut asked {
            mapping.build_id = None;
        }
        // [vsyscall] is no mapping, and only the text has it.
        let mut by_text = by_text;
        by_text.retain(|mapping| mapping.path != b"[vsyscall]");
        assert_eq!(asked, by_text);
    }

    fn tests_address() -> u64 {
        both_ways_tell_the_same as fn() as usize as u64
    }

    #[test]
    fn what_has_ended_is_an_error() {
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
