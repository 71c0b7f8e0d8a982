//! [`RecordingFile`]: a recording that grows under its name and keeps the previous one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::destination::{Choice, Destination};
use crate::error::OutputError;
use crate::own_file::{OwnFile, Whereabouts};
use crate::pending::hand_to_sudo_user;

/// Maximum number of free names tried.
const MAX_NAMES: u32 = 1000;

/// A new file for a recording.
///
/// ```text
///   create    perf.data.old -> perf.data.old.0, perf.data -> perf.data.old, perf.data made
///   settle    perf.data.old.0 removed
///   discard   perf.data removed, and both others put back
/// ```
#[derive(Debug)]
pub struct RecordingFile {
    /// Open for writing.
    pub file: File,
    /// Path of the file at creation.
    pub path: PathBuf,
    /// Identity of the file; `None` for `/dev/null`.
    own: Option<OwnFile>,
    /// The previous recording.
    old: Option<Displaced>,
    /// The file that had the `.old` name.
    older: Option<Displaced>,
}

/// A file that was renamed to free its name.
#[derive(Debug)]
struct Displaced {
    own: OwnFile,
    from: PathBuf,
    to: PathBuf,
}

impl Displaced {
    fn put_back(&self) {
        self.own.rename(&self.to, &self.from).ok();
    }
}

impl RecordingFile {
    /// Creates the file, mode 0600. Renames a file or link at `path` to `PATH.old`, so a link's
    /// target is never modified. Writes to `/dev/null` directly. Under sudo the calling user
    /// becomes the owner.
    ///
    /// # Errors
    /// [`OutputError`]; existing files keep their names.
    pub fn create(path: &Path) -> Result<RecordingFile, OutputError> {
        if path == Path::new("/dev/null")
            && let Destination::Stream { file, path } = Destination::of(path, Choice::Typed)?
        {
            return Ok(RecordingFile {
                file,
                path,
                own: None,
                old: None,
                older: None,
            });
        }
        if let Destination::Stream { .. } = Destination::of(path, Choice::Default)? {
            // A path that names a descriptor cannot be created.
            return Err(OutputError::Create {
                path: path.to_owned(),
                source: io::ErrorKind::InvalidInput.into(),
            });
        }
        let (mut old, mut older) = (None, None);
        if fs::symlink_metadata(path).is_ok() {
            let to = with_suffix(path, "old");
            if fs::symlink_metadata(&to).is_ok_and(|meta| !meta.is_dir()) {
                older = Some(make_room(&to)?);
            }
            match displace(path, to) {
                Ok(displaced) => old = Some(displaced),
                Err(error) => {
                    older.iter().for_each(Displaced::put_back);
                    return Err(error);
                }
            }
        }
        match RecordingFile::create_free(path) {
            Ok(made) => Ok(RecordingFile { old, older, ..made }),
            Err(error) => {
                old.iter().chain(&older).for_each(Displaced::put_back);
                Err(error)
            }
        }
    }

    /// Creates the file like [`create`](Self::create), only if the path is free.
    ///
    /// # Errors
    /// [`OutputError::Create`], also if the path exists.
    pub fn create_free(path: &Path) -> Result<RecordingFile, OutputError> {
        let create = |source| OutputError::create(path, source);
        let file = (File::options().write(true).create_new(true))
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32)
            .open(path)
            .map_err(create)?;
        hand_to_sudo_user(&file);
        let own = OwnFile::of(&file).map_err(create)?;
        Ok(RecordingFile {
            file,
            path: path.to_owned(),
            own: Some(own),
            old: None,
            older: None,
        })
    }

    /// Returns a handle of the same file for another thread. Discarding it restores no older
    /// recordings.
    ///
    /// # Errors
    /// The error of dup(2).
    pub fn share(&self) -> io::Result<RecordingFile> {
        Ok(RecordingFile {
            file: self.file.try_clone()?,
            path: self.path.clone(),
            own: self.own,
            old: None,
            older: None,
        })
    }

    /// Returns the identity of the file; `None` for `/dev/null`.
    #[must_use]
    pub fn own(&self) -> Option<OwnFile> {
        self.own
    }

    /// Looks up the current name of the file.
    #[must_use]
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts::of(&self.file, &self.path)
    }

    /// Confirms [`create`](Self::create): the recording has begun. Keeps the previous recording as
    /// `PATH.old`, and removes the older one.
    pub fn settle(mut self) {
        if let Some(older) = self.older.take() {
            // It may already be gone.
            older.own.remove(&older.to).ok();
        }
    }

    /// Deletes the file and restores the renamed ones, for a recording that never began. Ignores
    /// failures and files of other programs.
    pub fn discard(self) {
        if let Some(own) = self.own {
            own.remove(&self.path).ok();
        }
        self.old
            .iter()
            .chain(&self.older)
            .for_each(Displaced::put_back);
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn make_room(path: &Path) -> Result<Displaced, OutputError> {
    let mut last = None;
    for number in 0..MAX_NAMES {
        match displace(path, with_suffix(path, &number.to_string())) {
            Err(OutputError::Rename { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                last = Some(source);
            }
            done => return done,
        }
    }
    Err(OutputError::Rename {
        path: path.to_owned(),
        to: with_suffix(path, "0"),
        source: last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()),
    })
}

fn displace(path: &Path, to: PathBuf) -> Result<Displaced, OutputError> {
    let renamed = OwnFile::at(path).and_then(|own| match own.rename(path, &to)? {
        true => Ok(own),
        false => Err(io::ErrorKind::NotFound.into()),
    });
    match renamed {
        Ok(own) => Ok(Displaced {
            own,
            from: path.to_owned(),
            to,
        }),
        Err(source) => Err(OutputError::Rename {
            path: path.to_owned(),
            to,
            source,
        }),
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
    fn a_recording_that_never_began_leaves_both_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (
            dir.path().join("perf.data"),
            dir.path().join("perf.data.old"),
        );
        let names = || fs::read_dir(dir.path()).unwrap().count();
        fs::write(&path, "new").unwrap();
        fs::write(&old, "old").unwrap();
        RecordingFile::create(&path).unwrap().discard();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&old).unwrap(), b"old");
        assert_eq!(names(), 2);
        RecordingFile::create(&path).unwrap().settle();
        assert_eq!(fs::read(&old).unwrap(), b"new");
        assert_eq!(names(), 2);
        // A folder in the way is detected before anything is renamed.
        fs::remove_file(&old).unwrap();
        fs::create_dir(&old).unwrap();
        fs::write(&path, "third").unwrap();
        let refused = RecordingFile::create(&path).unwrap_err();
        assert!(matches!(refused, OutputError::Rename { .. }), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"third");
    }

    #[test]
    fn what_others_put_there_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "mine").unwrap();
        let made = RecordingFile::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        assert_eq!(made.whereabouts(), Whereabouts::Deleted);
        made.discard();
        assert_eq!(fs::read(&path).unwrap(), b"another's");
        assert_eq!(fs::read(dir.path().join("perf.data.old")).unwrap(), b"mine");
        let taken = RecordingFile::create_free(&path).unwrap_err();
        assert!(matches!(taken, OutputError::Create { .. }), "{taken}");
    }

    #[test]
    fn a_links_target_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("precious"), dir.path().join("perf.data"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        RecordingFile::create(&link).unwrap().settle();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
