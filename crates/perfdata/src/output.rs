//! Output files, which replace recordings but nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Reason for which an output file cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Something that must not be replaced stands there.
    #[error("{} is a {kind}; a recording would destroy it. Choose another file with -o", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// Type of the file that is there.
        kind: &'static str,
    },
    /// The old file could not be moved away.
    #[error("cannot rename {} to {}: {source}", path.display(), to.display())]
    Rename {
        /// The old file.
        path: PathBuf,
        /// New name of the old file.
        to: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new file could not be made.
    #[error("cannot create {}: {source}. Choose another file with -o", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A new file for a recording.
#[derive(Debug)]
pub struct OutputFile {
    /// Open for writing.
    pub file: File,
    /// Path of the file.
    pub path: PathBuf,
    /// New name of the recording that was there before.
    old: Option<PathBuf>,
}

impl OutputFile {
    /// Makes the file, mode 0600. A regular file or symbolic link that stands
    /// there is renamed to `PATH.old`, so a link's target is not written to;
    /// `/dev/null` is written to as it is. Under sudo the file is handed to the
    /// user who called it.
    ///
    /// # Errors
    /// [`OutputError`]: nothing was changed, unless the rename had been done.
    pub fn create(path: &Path) -> Result<OutputFile, OutputError> {
        let create = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        if path == Path::new("/dev/null") {
            let file = File::options().write(true).open(path).map_err(create)?;
            return Ok(OutputFile {
                file,
                path: path.to_owned(),
                old: None,
            });
        }
        let mut old = None;
        if let Ok(meta) = fs::symlink_metadata(path) {
            let kind = meta.file_type();
            let in_the_way = match () {
                () if kind.is_dir() => Some("directory"),
                () if kind.is_fifo() => Some("named pipe"),
                () if kind.is_socket() => Some("socket"),
                () if kind.is_char_device() => Some("character device"),
                () if kind.is_block_device() => Some("block device"),
                () => None,
            };
            if let Some(kind) = in_the_way {
                return Err(OutputError::InTheWay {
                    path: path.to_owned(),
                    kind,
                });
            }
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
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
            .map_err(create)?;
        hand_to_sudo_user(&file);
        Ok(OutputFile {
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_old_file_is_kept_and_a_directory_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "first").unwrap();
        let made = OutputFile::create(&path).unwrap();
        assert_eq!(
            fs::read(dir.path().join("perf.data.old")).unwrap(),
            b"first"
        );
        let mode = made.file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        made.discard();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let error = OutputFile::create(dir.path()).unwrap_err();
        assert!(matches!(
            error,
            OutputError::InTheWay {
                kind: "directory",
                ..
            }
        ));
    }

    #[test]
    fn a_links_target_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("precious"), dir.path().join("perf.data"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        OutputFile::create(&link).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
