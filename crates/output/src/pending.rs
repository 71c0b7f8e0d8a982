//! [`PendingFile`]: a result that gets its name when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::error::OutputError;

/// Users who may read a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Mode 0644 less the umask.
    #[default]
    ByUmask,
    /// Only the owner: mode 0600. Under sudo the calling user becomes the owner.
    Owner,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Readers::ByUmask => 0o644,
            Readers::Owner => 0o600,
        }
    }
}

/// Gives a file written under sudo to the calling user (`SUDO_UID`, `SUDO_GID`). Ignores failures.
pub(crate) fn hand_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID")) {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid)).ok();
    }
}

/// An unfinished result. Dropping it keeps the old file at its path; a stream keeps the bytes
/// already written.
#[derive(Debug)]
pub struct PendingFile {
    out: BufWriter<File>,
    path: PathBuf,
    /// Temporary name of the file; `None` for a stream.
    temporary: Option<TempPath>,
}

impl PendingFile {
    /// Creates a temporary file in the folder of `path`, for these readers.
    pub(crate) fn beside(path: &Path, readers: Readers) -> Result<PendingFile, OutputError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = (tempfile::Builder::new().prefix(".rprof"))
            .make_in(folder, |path| {
                (File::options().write(true).create_new(true))
                    .mode(readers.mode())
                    .open(path)
            })
            .map_err(|source| OutputError::create(path, source))?;
        let (file, temporary) = file.into_parts();
        if readers == Readers::Owner {
            hand_to_sudo_user(&file);
        }
        Ok(PendingFile {
            out: BufWriter::new(file),
            path: path.to_owned(),
            temporary: Some(temporary),
        })
    }

    pub(crate) fn stream(file: File, path: PathBuf) -> PendingFile {
        PendingFile {
            out: BufWriter::new(file),
            path,
            temporary: None,
        }
    }

    /// Flushes the buffer and renames the file to its path.
    ///
    /// # Errors
    /// [`OutputError::Write`]; the old file is unchanged.
    pub fn finish(mut self) -> Result<(), OutputError> {
        let flushed = self.out.flush();
        let named = flushed.and_then(|()| match self.temporary {
            Some(temporary) => temporary.persist(&self.path).map_err(|e| e.error),
            None => Ok(()),
        });
        named.map_err(|source| OutputError::Write {
            path: self.path,
            source,
        })
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let mut half = PendingFile::beside(&path, Readers::ByUmask).unwrap();
        half.write_all(b"half").unwrap();
        half.flush().unwrap();
        drop(half);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut whole = PendingFile::beside(&path, Readers::ByUmask).unwrap();
        whole.write_all(b"new").unwrap();
        whole.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_a_link_leads_to_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, link) = (folder.path().join("precious"), folder.path().join("out"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let mut file = PendingFile::beside(&link, Readers::ByUmask).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
    }

    #[test]
    fn errors_name_no_temporary_file() {
        let error =
            PendingFile::beside(Path::new("/no/such/folder/out"), Readers::ByUmask).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text,
            "cannot create /no/such/folder/out: the folder /no/such/folder does not exist"
        );
    }

    #[test]
    fn a_private_file_is_never_readable_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let mut file = PendingFile::beside(&path, Readers::Owner).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(mode(file.temporary.as_deref().unwrap()), 0o600);
        file.finish().unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
