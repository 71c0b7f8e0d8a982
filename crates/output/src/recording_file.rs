//! [`RecordingFile`]: a recording, which grows under its name and keeps the one before.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::destination::{Choice, Destination};
use crate::error::OutputError;

/// A new file for a recording.
#[derive(Debug)]
pub struct RecordingFile {
    /// Open for writing.
    pub file: File,
    /// Path of the file.
    pub path: PathBuf,
    /// New name of the recording that was there before.
    old: Option<PathBuf>,
}

impl RecordingFile {
    /// Creates the file, mode 0600. A regular file, or a link to one or to nothing, that stands
    /// there is renamed to `PATH.old`, so a link's target is not written to;
    /// `/dev/null` is written to as it is. Under sudo the file is handed to the
    /// user who called it.
    ///
    /// # Errors
    /// [`OutputError`]: nothing was changed, unless the rename had been done.
    pub fn create(path: &Path) -> Result<RecordingFile, OutputError> {
        let create = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        if path == Path::new("/dev/null") {
            let file = File::options().write(true).open(path).map_err(create)?;
            return Ok(RecordingFile {
                file,
                path: path.to_owned(),
                old: None,
            });
        }
        if let Destination::Stream { .. } = Destination::of(path, Choice::Default)? {
            // A path that names a descriptor has no name to take.
            return Err(create(std::io::ErrorKind::InvalidInput.into()));
        }
        let mut old = None;
        if fs::symlink_metadata(path).is_ok() {
            let mut to = path.as_os_str().to_owned();
            to.push(".old");
            let to = PathBuf::from(to);
            if let Err(source) = fs::rename(path, &to) {
                return Err(OutputError::Rename {
                    path: path.to_owned(),
                    to,
                    source,
                });
            }
            old = Some(to);
        }
        let file = (File::options().write(true).create_new(true))
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32)
            .open(path)
            .map_err(create)?;
        hand_to_sudo_user(&file);
        Ok(RecordingFile {
            file,
            path: path.to_owned(),
            old,
        })
    }

    /// Takes the file away again, and puts back the one that stood there: for a
    /// recording that never began. What cannot be undone stays.
    pub fn discard(self) {
        if self.path == Path::new("/dev/null") || fs::remove_file(&self.path).is_err() {
            return;
        }
        if let Some(old) = &self.old {
            fs::rename(old, &self.path).ok();
        }
    }
}

/// A file that `sudo rprof` wrote belongs to the user who will read it. What
/// sudo did not set, or what cannot be changed, leaves it as it is.
fn hand_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID")) {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_old_file_is_kept_and_a_directory_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "first").unwrap();
        let made = RecordingFile::create(&path).unwrap();
        assert_eq!(
            fs::read(dir.path().join("perf.data.old")).unwrap(),
            b"first"
        );
        let mode = made.file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        made.discard();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let error = RecordingFile::create(dir.path()).unwrap_err();
        let is_directory = matches!(
            error,
            OutputError::InTheWay {
                kind: Kind::Directory,
                ..
            }
        );
        assert!(is_directory, "{error:?}");
    }

    #[test]
    fn a_links_target_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("precious"), dir.path().join("perf.data"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        RecordingFile::create(&link).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
