//! [`LiveFiles`]: the perf map and jitdumps of a live process, held open.
//!
//! A runtime creates these files some time after it mapped memory for its code, and they may be gone
//! when the process is: deleted, in a namespace that ends with it, or overwritten by the next
//! process of the same pid. So they are opened as soon as they exist, and read in the end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::by_process::MAX_JITDUMPS;
use crate::process_root::{ProcessRoot, has_our_root};
use crate::source::{MapFile, Refusal};

/// The files of one live process.
#[derive(Debug)]
pub struct LiveFiles {
    /// Roots to look in, in this order.
    roots: Vec<ProcessRoot>,
    perf_map: AwaitedFile,
    jitdumps: Vec<AwaitedFile>,
}

/// A file that is opened as soon as it exists.
#[derive(Debug)]
pub struct AwaitedFile {
    path: PathBuf,
    file: Option<MapFile>,
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
            perf_map: AwaitedFile::new(perf_map),
            jitdumps: Vec::new(),
        }
    }

    /// Adds a jitdump by its path, as the process names it, unless it is known or there are too many.
    pub fn add_jitdump(&mut self, path: &[u8]) {
        let path = Path::new(OsStr::from_bytes(path));
        let is_known = self.jitdumps.iter().any(|dump| dump.path == path);
        if !is_known && self.jitdumps.len() < MAX_JITDUMPS {
            self.jitdumps.push(AwaitedFile::new(path.to_owned()));
        }
    }

    /// Opens what exists by now, under its name, which may by now be that of another file than the one
    /// held. Each file that may not be used is handed to `refused` once.
    pub fn open(&mut self, mut refused: impl FnMut(&Path, &Refusal)) {
        for awaited in self.jitdumps.iter_mut().chain([&mut self.perf_map]) {
            if let Err(refusal) = awaited.open(&self.roots) {
                refused(&awaited.path, &refusal);
            }
        }
    }

    /// Returns the user for whom files are opened, where it is known.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.roots.first()?.user()
    }

    /// Returns the perf map.
    #[must_use]
    pub fn perf_map(&self) -> &AwaitedFile {
        &self.perf_map
    }

    /// Returns the jitdumps, in the order in which they were mapped.
    #[must_use]
    pub fn jitdumps(&self) -> &[AwaitedFile] {
        &self.jitdumps
    }

    /// Returns the number of files that are held open.
    #[must_use]
    pub fn held(&self) -> usize {
        let all = self.jitdumps.iter().chain([&self.perf_map]);
        all.filter(|awaited| awaited.file.is_some()).count()
    }
}

impl AwaitedFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            is_refused: false,
        }
    }

    fn open(&mut self, roots: &[ProcessRoot]) -> Result<(), Refusal> {
        if self.is_refused {
            return Ok(());
        }
        for root in roots {
            match root.open(&self.path) {
                Ok(Some(file)) => {
                    self.file = Some(file);
                    break;
                }
                Ok(None) => {}
                Err(refusal) => {
                    self.is_refused = true;
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// Returns the path, as the process names it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length in bytes that it has by now; 0 if it is not there, or cannot be looked at.
    #[must_use]
    pub fn len(&self) -> u64 {
        let len = self.file.as_ref().map(MapFile::len);
        len.and_then(Result::ok).unwrap_or(0)
    }

    /// Returns true if it is not there, or empty by now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if it is there, long, and nearly all holes: see [`MapFile::is_mostly_holes`].
    #[must_use]
    pub fn is_mostly_holes(&self) -> bool {
        self.file.as_ref().is_some_and(MapFile::is_mostly_holes)
    }

    /// Returns the file, if it is there.
    #[must_use]
    pub fn file(&self) -> Option<&MapFile> {
        self.file.as_ref()
    }

    /// Reads what the file holds by now. `None` if it is not there, or empty.
    ///
    /// # Errors
    /// [`Refusal`], if it cannot be read or has become too long.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        Ok(Some(file.read()?).filter(|bytes| !bytes.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_opened_once_they_exist_and_read_after_they_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-1.dump");
        let us = std::process::id() as i32;
        let mut files = LiveFiles::new(us);
        files.add_jitdump(path.as_os_str().as_bytes());
        files.add_jitdump(path.as_os_str().as_bytes());
        let mut refused = Vec::new();
        files.open(|path, _| refused.push(path.to_owned()));
        assert_eq!((files.held(), files.jitdumps().len()), (0, 1));
        std::fs::write(&path, "JiTD").unwrap();
        files.open(|path, _| refused.push(path.to_owned()));
        assert_eq!(files.held(), 1);
        std::fs::remove_file(&path).unwrap();
        files.open(|path, _| refused.push(path.to_owned()));
        let read = files.jitdumps()[0].read().unwrap();
        assert_eq!(read.as_deref(), Some(&b"JiTD"[..]));
        assert!(refused.is_empty(), "{refused:?}");
    }

    #[test]
    fn a_refusal_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jit-1.dump");
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let mut files = LiveFiles::new(std::process::id() as i32);
        files.add_jitdump(path.as_os_str().as_bytes());
        let mut refused = 0;
        for _ in 0..3 {
            files.open(|_, refusal| {
                assert!(matches!(refusal, Refusal::SymbolicLink));
                refused += 1;
            });
        }
        assert_eq!((refused, files.held()), (1, 0));
    }
}
