//! Search for the file behind a mapping.

use crate::file_view::FileView;
use crate::identity::FileIdentity;
use crate::open_error::OpenError;
use crate::regular_file::{LocatedFile, RegularFile};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A mapped file of a live or ended process.
#[derive(Debug, Clone)]
pub struct MappedFile<'a> {
    /// Pid in this PID namespace.
    pub pid: i32,
    /// AVMAs of the mapping.
    pub range: Range<u64>,
    /// Recorded path without ` (deleted)`. `None` for other names, as of a memfd.
    pub path: Option<&'a [u8]>,
    /// Recorded identity of the file.
    pub identity: FileIdentity,
}

fn is_too_many(error: &OpenError) -> bool {
    *error == OpenError::TooManyFiles
}

struct Candidate {
    file: LocatedFile,
    /// True for `/proc/PID/map_files/RANGE`, which survives renaming and deletion.
    is_mapped: bool,
}

impl MappedFile<'_> {
    /// Opens the file to read its unwind tables, with this program's own rights.
    ///
    /// # Errors
    /// [`OpenError::TooManyFiles`] if any attempt failed with it; otherwise the error at the
    /// recorded path.
    pub fn open(&self) -> Result<RegularFile, OpenError> {
        self.open_if(|file, is_mapped| is_mapped || self.identity.may_be(file))
    }

    /// Opens the file to read its build-id, with this program's own rights. The pid may have been
    /// reused, so even the mapping must match the identity.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_to_identify(&self) -> Result<RegularFile, OpenError> {
        self.open_if(|file, _| self.identity.may_be(file))
    }

    fn open_if(
        &self,
        is_right: impl Fn(&RegularFile, bool) -> bool,
    ) -> Result<RegularFile, OpenError> {
        let view = u32::try_from(self.pid).ok().map(FileView::of_process);
        let mut has_too_many = matches!(&view, Some(Err(error)) if is_too_many(&error.into()));
        if let Some(Ok(view)) = &view {
            for candidate in self.candidates(view) {
                match candidate.file.open() {
                    Ok(file) if is_right(&file, candidate.is_mapped) => return Ok(file),
                    opened => has_too_many |= opened.is_err_and(|error| is_too_many(&error)),
                }
            }
        }
        self.open_here().map_err(|error| match has_too_many {
            true => OpenError::TooManyFiles,
            false => error,
        })
    }

    fn open_here(&self) -> Result<RegularFile, OpenError> {
        // A relative name leads to no particular file.
        let path = self.absolute_path().ok_or(OpenError::NoSuchFile)?;
        let file = RegularFile::open(path)?;
        match self.identity.may_be(&file) {
            true => Ok(file),
            false => Err(OpenError::NoSuchFile),
        }
    }

    /// Opens the file with the rights of its process, to copy it into a recording. The mapping, the
    /// build-id, or device and inode must match; a name is not enough.
    ///
    /// # Errors
    /// [`OpenError::PermissionDenied`] if the process may not read the file, or this program [may
    /// not copy](FileView::may_copy) it. [`OpenError::NoSuchFile`] if no file matches.
    pub fn open_to_copy(&self, view: &FileView) -> Result<RegularFile, OpenError> {
        if !view.may_copy() {
            return Err(OpenError::PermissionDenied);
        }
        let mut why = OpenError::NoSuchFile;
        for candidate in self.candidates(view) {
            match view.open(&candidate.file) {
                Ok(file) if self.is_sure(candidate.is_mapped, &file) => return Ok(file),
                Ok(_) => {}
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// With a reused pid, even a mapping needs a matching build-id or inode number.
    fn is_sure(&self, is_mapped: bool, file: &RegularFile) -> bool {
        let may_be = || self.identity.may_be(file);
        self.identity.is(file) || (is_mapped && may_be())
    }

    /// Locates the mapping itself; the running program, which needs no privilege even if deleted;
    /// the path as the process sees it.
    fn candidates<'s>(&'s self, view: &'s FileView) -> impl Iterator<Item = Candidate> + 's {
        // Only an identity shows that this is the main program.
        let is_known = self.identity != FileIdentity::Unknown;
        (0..3).filter_map(move |place| {
            let file = match place {
                0 => view.locate_mapped(&self.range).ok(),
                1 if is_known => view.locate_program().ok(),
                2 => view.locate(self.absolute_path()?).ok(),
                _ => None,
            };
            Some(Candidate {
                file: file?,
                is_mapped: place == 0,
            })
        })
    }

    fn absolute_path(&self) -> Option<&Path> {
        let path = Path::new(OsStr::from_bytes(self.path?));
        path.is_absolute().then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn file(path: Option<&[u8]>, identity: FileIdentity) -> MappedFile<'_> {
        MappedFile {
            pid: std::process::id() as i32,
            range: 0x1000..0x2000,
            path,
            identity,
        }
    }

    fn identity(path: &Path) -> FileIdentity {
        let metadata = std::fs::metadata(path).unwrap();
        let device = metadata.dev();
        FileIdentity::Inode {
            device: (rustix::fs::major(device), rustix::fs::minor(device)),
            inode: metadata.ino(),
        }
    }

    #[test]
    fn another_file_of_that_name_is_not_taken() {
        let exe = std::env::current_exe().unwrap();
        let path = Some(exe.as_os_str().as_bytes());
        let right = identity(&exe);
        let other = identity(Path::new("/proc/self/status"));
        let here = |identity| MappedFile {
            pid: i32::MAX,
            ..file(path, identity)
        };
        assert!(here(FileIdentity::Unknown).open().is_ok());
        assert!(here(right).open().is_ok());
        assert!(here(other).open().is_err());
        let relative = MappedFile {
            path: Some(b"Cargo.toml"),
            ..here(FileIdentity::Unknown)
        };
        assert!(relative.open().is_err());
    }

    #[test]
    fn nothing_is_copied_by_its_name_or_inode_number_alone() {
        let view = FileView::of_process(std::process::id()).unwrap();
        let copied = tempfile::NamedTempFile::new().unwrap();
        let path = Some(copied.path().as_os_str().as_bytes());
        let right = identity(copied.path());
        let FileIdentity::Inode { device, inode } = right else {
            unreachable!("it has both");
        };
        let elsewhere = FileIdentity::Inode {
            device: (device.0 + 1, device.1),
            inode,
        };
        let copy = |identity| file(path, identity).open_to_copy(&view).err();
        assert_eq!(copy(right), None);
        assert_eq!(copy(elsewhere), Some(OpenError::NoSuchFile));
        assert_eq!(copy(FileIdentity::Unknown), Some(OpenError::NoSuchFile));
        assert!(file(path, elsewhere).open().is_ok(), "to unwind by");
    }

    #[test]
    fn a_link_in_place_of_the_file_leads_nowhere() {
        let view = FileView::of_process(std::process::id()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (secret, link) = (folder.path().join("secret"), folder.path().join("link"));
        std::fs::write(&secret, "text").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let by_link = file(Some(link.as_os_str().as_bytes()), identity(&secret));
        assert_eq!(
            by_link.open_to_copy(&view).err(),
            Some(OpenError::SymbolicLink)
        );
    }
}
