//! [`LiveFiles`]: the perf map and jitdumps of a live process.
//!
//! A runtime creates these files some time after it mapped memory for its code, and they may be gone
//! when the process is: deleted, in a namespace that ends with it, or overwritten by the next
//! process of the same pid. So whoever needs them looks again and again, and keeps what it read. No file is held open in between:
//! a mount that has no other user can be taken away, and a deleted file takes no space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::by_process::MAX_JITDUMPS;
use crate::process_root::{ProcessRoot, has_our_root};
use crate::source::{MapFile, Refusal};

/// The files of one live process: its jitdumps, in the order in which they were mapped, and its perf map behind them.
#[derive(Debug)]
pub struct LiveFiles {
    /// Roots to look in, in this order.
    roots: Vec<ProcessRoot>,
    /// The perf map is the last.
    files: Vec<AwaitedFile>,
}

/// A file that may exist some time.
#[derive(Debug)]
struct AwaitedFile {
    path: PathBuf,
    is_refused: bool,
}

impl LiveFiles {
    /// Prepares for the files of a process, and opens none yet. A process that is gone already is
    /// taken for one of the host's mount namespace.
    #[must_use]
    pub fn new(pid: i32) -> Self {
        let host = || ProcessRoot::host(pid);
        let roots = match ProcessRoot::of_live(pid) {
            None => vec![host()],
            Some(live) if has_our_root(pid) => {
                // `/proc/PID/root` goes with the process, its files stay.
                let ended = live.when_ended();
                vec![live, ended]
            }
            Some(live) => vec![live],
        };
        let perf_map = roots
            .first()
            .map_or_else(|| host().perf_map_path(), ProcessRoot::perf_map_path);
        Self {
            roots,
            files: vec![AwaitedFile::new(perf_map)],
        }
    }

    /// Adds a jitdump by its path, as the process names it, unless it is known or there are too many.
    pub fn add_jitdump(&mut self, path: &[u8]) {
        let path = Path::new(OsStr::from_bytes(path));
        let dumps = self.jitdumps();
        let is_known = self.files[..dumps].iter().any(|dump| dump.path == path);
        if !is_known && dumps < MAX_JITDUMPS {
            self.files.insert(dumps, AwaitedFile::new(path.to_owned()));
        }
    }

    /// Returns the number of jitdumps. The perf map has this number, and each jitdump a lower one.
    #[must_use]
    pub fn jitdumps(&self) -> usize {
        self.files.len().saturating_sub(1)
    }

    /// Returns the path of a file, as the process names it.
    #[must_use]
    pub fn path(&self, number: usize) -> &Path {
        self.files
            .get(number)
            .map_or(Path::new(""), |file| &file.path)
    }

    /// Opens a file under its name, which may by now be that of another file than before. `None` if there is none now, and
    /// for one that was refused before.
    ///
    /// # Errors
    /// [`Refusal`], once for each file.
    pub fn open(&mut self, number: usize) -> Result<Option<MapFile>, Refusal> {
        let Some(awaited) = self.files.get_mut(number).filter(|file| !file.is_refused) else {
            return Ok(None);
        };
        for root in &self.roots {
            match root.open(&awaited.path) {
                Ok(None) => {}
                Err(refusal) => {
                    awaited.is_refused = true;
                    return Err(refusal);
                }
                found => return found,
            }
        }
        Ok(None)
    }
}

impl AwaitedFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            is_refused: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_opened_while_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-1.dump");
        let us = std::process::id() as i32;
        let mut files = LiveFiles::new(us);
        files.add_jitdump(path.as_os_str().as_bytes());
        files.add_jitdump(path.as_os_str().as_bytes());
        assert_eq!(files.jitdumps(), 1);
        assert_eq!(files.path(0), path);
        assert_eq!(files.path(1), Path::new(&format!("/tmp/perf-{us}.map")));
        let mut read = || files.open(0).unwrap().map(|file| file.read().unwrap());
        assert_eq!(read(), None);
        std::fs::write(&path, "JiTD").unwrap();
        assert_eq!(read().as_deref(), Some(&b"JiTD"[..]));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(), None);
        assert!(files.open(2).unwrap().is_none());
    }

    #[test]
    fn a_refusal_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-1.dump");
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let mut files = LiveFiles::new(std::process::id() as i32);
        files.add_jitdump(path.as_os_str().as_bytes());
        assert!(matches!(files.open(0), Err(Refusal::SymbolicLink)));
        assert!(matches!(files.open(0), Ok(None)));
    }
}
