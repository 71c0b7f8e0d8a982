//! [`LiveFiles`]: the perf map and jitdumps of a live process.
//!
//! A runtime creates these files after it maps memory for its code. They may disappear with the
//! process, or be overwritten by the next process with the same pid. So callers poll the files and
//! keep the contents. Files are closed between reads, so that a mount can be unmounted and a
//! deleted file frees its space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::by_process::MAX_JITDUMPS;
use crate::process_root::{ProcessRoot, has_our_root};
use crate::source::{MapFile, Refusal};

/// The jitdumps of one live process in mapping order, then its perf map.
#[derive(Debug)]
pub struct LiveFiles {
    roots: Vec<ProcessRoot>,
    files: Vec<AwaitedFile>,
}

/// File that may not exist yet.
#[derive(Debug)]
struct AwaitedFile {
    path: PathBuf,
    is_refused: bool,
}

impl LiveFiles {
    /// Prepares the file list without opening any. An ended process is assumed to share the host's
    /// mount namespace.
    #[must_use]
    pub fn new(pid: i32) -> Self {
        let host = || ProcessRoot::host(pid);
        let roots = match ProcessRoot::of_live(pid) {
            None => vec![host()],
            Some(live) if has_our_root(pid) => {
                // `/proc/PID/root` disappears with the process, unlike its files.
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

    /// Adds a jitdump by its path in the process's namespace, up to [`MAX_JITDUMPS`] distinct ones.
    pub fn add_jitdump(&mut self, path: &[u8]) {
        let path = Path::new(OsStr::from_bytes(path));
        let dumps = self.jitdumps();
        let is_known = self.files[..dumps].iter().any(|dump| dump.path == path);
        if !is_known && dumps < MAX_JITDUMPS {
            self.files.insert(dumps, AwaitedFile::new(path.to_owned()));
        }
    }

    /// Returns the number of jitdumps, which is also the index of the perf map.
    #[must_use]
    pub fn jitdumps(&self) -> usize {
        self.files.len().saturating_sub(1)
    }

    /// Returns the path of a file in the process's namespace.
    #[must_use]
    pub fn path(&self, number: usize) -> &Path {
        self.files
            .get(number)
            .map_or(Path::new(""), |file| &file.path)
    }

    /// Opens a file. `None` if it does not exist, or was refused before.
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
