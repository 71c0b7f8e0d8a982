//! [`UnnamedFile`]: a temporary file without a name.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A temporary file without a name (`O_TMPFILE` of open(2)). It disappears with its process.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
}

impl UnnamedFile {
    /// Creates the file, mode 0600, in `TMPDIR` or `/tmp`. Without `O_TMPFILE` in the file system,
    /// it briefly has a name.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create() -> io::Result<UnnamedFile> {
        let file = tempfile::tempfile()?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(UnnamedFile { file })
    }

    /// Returns another handle of the file, with a shared position.
    ///
    /// # Errors
    /// The error of dup(2).
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns a path that opens the file again, only in this process.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_written_is_read_by_the_path_and_has_no_name() {
        let unnamed = UnnamedFile::create().unwrap();
        unnamed.handle().unwrap().write_all(b"text").unwrap();
        assert_eq!(std::fs::read(unnamed.path()).unwrap(), b"text");
        let meta = unnamed.file.metadata().unwrap();
        assert_eq!((meta.nlink(), meta.mode() & 0o777), (0, 0o600));
    }
}
