//! The search for the file that a process has mapped.

use crate::{FileIdentity, ImageFile};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File that a process has mapped, or had.
#[derive(Debug, Clone)]
pub struct MappedFile<'a> {
    /// Process, by its number in this PID namespace.
    pub pid: i32,
    /// AVMAs of the mapping.
    pub range: Range<u64>,
    /// Path as recorded, without ` (deleted)`. `None` where the name is no path, as that of a
    /// memfd.
    pub path: Option<&'a [u8]>,
    /// Identity that a file must have at a path other than that of the mapping itself.
    pub identity: FileIdentity,
}

/// Path under which a mapped file may be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The path.
    pub path: PathBuf,
    /// True for `/proc/PID/map_files/RANGE`, which leads to the very file that is mapped, whatever
    /// its name leads to by now.
    pub is_mapped: bool,
}

impl MappedFile<'_> {
    /// Opens the file.
    #[must_use]
    pub fn open(&self) -> Option<ImageFile> {
        self.candidates()
            .find_map(|candidate| self.open_at(&candidate))
    }

    /// Opens the file at a path, if it has the expected identity.
    #[must_use]
    pub fn open_at(&self, candidate: &Candidate) -> Option<ImageFile> {
        // A name that does not begin at the root leads to nowhere in particular.
        if !candidate.path.is_absolute() {
            return None;
        }
        let file = ImageFile::open(&candidate.path).ok()?;
        (candidate.is_mapped || self.identity.is_of(&file)).then_some(file)
    }

    /// Returns the paths to try, in this order: the mapping itself; the program that the process
    /// runs, which needs no privilege even where it was deleted; the path as the process sees it,
    /// in its container; the path as it is here, for a process that has ended.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let proc = PathBuf::from(format!("/proc/{}", self.pid));
        let range = format!("{:x}-{:x}", self.range.start, self.range.end);
        let mapped = Candidate {
            path: proc.join("map_files").join(range),
            is_mapped: true,
        };
        // Which of its images the program is, only their identities say.
        let exe = (self.identity != FileIdentity::Unknown).then(|| proc.join("exe"));
        let path = (self.path).map(|path| Path::new(OsStr::from_bytes(path)));
        let inside = path.and_then(|path| path.strip_prefix("/").ok());
        let inside = inside.map(|inside| proc.join("root").join(inside));
        let others = [exe, inside, path.map(Path::to_owned)];
        let others = others.into_iter().flatten().map(|path| Candidate {
            path,
            is_mapped: false,
        });
        std::iter::once(mapped).chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: Option<&[u8]>, identity: FileIdentity) -> MappedFile<'_> {
        MappedFile {
            pid: 7,
            range: 0x1000..0x2000,
            path,
            identity,
        }
    }

    #[test]
    fn candidates_come_from_the_surest_on() {
        let paths = |file: MappedFile<'_>| -> Vec<String> {
            let shown = |found: Candidate| found.path.display().to_string();
            file.candidates().map(shown).collect()
        };
        assert_eq!(
            paths(file(Some(b"/usr/bin/x"), FileIdentity::Inode(3))),
            [
                "/proc/7/map_files/1000-2000",
                "/proc/7/exe",
                "/proc/7/root/usr/bin/x",
                "/usr/bin/x"
            ]
        );
        assert_eq!(
            paths(file(None, FileIdentity::Unknown)),
            ["/proc/7/map_files/1000-2000"]
        );
        let file = file(Some(b"/x"), FileIdentity::Unknown);
        let is_mapped: Vec<bool> = file.candidates().map(|found| found.is_mapped).collect();
        assert_eq!(is_mapped, [true, false, false]);
    }

    #[test]
    fn another_file_of_that_name_is_not_taken() {
        let exe = std::env::current_exe().unwrap();
        let inode = ImageFile::open(&exe).unwrap().inode();
        let path = Some(exe.as_os_str().as_bytes());
        let here = |identity| MappedFile {
            pid: i32::MAX,
            ..file(path, identity)
        };
        assert!(here(FileIdentity::Unknown).open().is_some());
        assert!(here(FileIdentity::Inode(inode)).open().is_some());
        assert!(here(FileIdentity::Inode(inode + 1)).open().is_none());
        let relative = MappedFile {
            path: Some(b"Cargo.toml"),
            ..here(FileIdentity::Unknown)
        };
        assert!(relative.open().is_none());
    }
}
