//! Finished files of `rprof record --switch-output`, and a journal of sent ones.
//!
//! A recorder writes `FILE`, and renames it to `FILE.YYYYMMDDHHMMSSCC` when it is finished, so
//! names sort by time. [`Journal`] stores the name of the last sent or rejected file. A restarted
//! program continues after it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rprof_output::{Choice, Destination, OutputError};

/// Digits of a timestamp, as in perf and rprof.
const STAMP: usize = 16;

/// Returns the names of a recording's finished files, oldest first.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn finished(recording: &Path) -> io::Result<Vec<OsString>> {
    let Some(base) = recording.file_name() else {
        return Ok(Vec::new());
    };
    let mut prefix = base.as_bytes().to_vec();
    prefix.push(b'.');
    let mut names = Vec::new();
    for entry in fs::read_dir(folder_of(recording))? {
        let name = entry?.file_name().into_vec();
        let stamp = name.strip_prefix(&prefix[..]).unwrap_or_default();
        if stamp.len() == STAMP && stamp.iter().all(u8::is_ascii_digit) {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the folder of a recording and its finished files.
pub fn folder_of(recording: &Path) -> &Path {
    match recording.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Name of the last file sent to a server. The journal file has two lines: address and name.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    address: String,
    last: Option<OsString>,
}

/// Failure of a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The journal cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the journal.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The journal cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the journal.
        path: PathBuf,
        /// Cause.
        source: OutputError,
    },
    /// The journal belongs to another server.
    #[error("{} lists files sent to {address}; name another file for this server with --state", path.display())]
    OtherServer {
        /// Path of the journal.
        path: PathBuf,
        /// Address of the other server.
        address: String,
    },
    /// The file is not a journal.
    #[error("{} is not a list of sent files; name another file with --state", path.display())]
    NoJournal {
        /// Path of the file.
        path: PathBuf,
    },
}

impl Journal {
    /// Reads the journal of a server. A missing file is an empty journal.
    ///
    /// # Errors
    /// Returns [`JournalError`].
    pub fn open(path: &Path, address: &str) -> Result<Journal, JournalError> {
        let mut journal = Journal {
            path: path.to_owned(),
            address: address.to_owned(),
            last: None,
        };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(source) => {
                let path = path.to_owned();
                return Err(JournalError::Read { path, source });
            }
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let (Some(known), Some(name), Some(b""), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(JournalError::NoJournal {
                path: path.to_owned(),
            });
        };
        if known != address.as_bytes() {
            return Err(JournalError::OtherServer {
                path: path.to_owned(),
                address: String::from_utf8_lossy(known).into_owned(),
            });
        }
        journal.last = Some(OsString::from_vec(name.to_vec()));
        Ok(journal)
    }

    /// Returns whether the file of this name, or a later one, was sent.
    pub fn has(&self, name: &OsString) -> bool {
        self.last.as_ref().is_some_and(|last| name <= last)
    }

    /// Records that all files up to this name were sent.
    ///
    /// # Errors
    /// Returns [`JournalError::Write`].
    pub fn set(&mut self, name: &OsString) -> Result<(), JournalError> {
        self.last = Some(name.clone());
        let text = [self.address.as_bytes(), b"\n", name.as_bytes(), b"\n"].concat();
        let write = || -> Result<(), OutputError> {
            let mut file = Destination::of(&self.path, Choice::Typed)?.begin()?;
            // `finish` reports a write error.
            file.write_all(&text).ok();
            file.finish()
        };
        write().map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_files_are_those_with_a_stamp_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "perf.data",
            "perf.data.old",
            "perf.data.2026112314000002",
            "perf.data.2026112314000001",
            "perf.data.2026112314000001.tmp",
            "perf.data.pushed",
            "other.data.2026112314000001",
        ] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let names = finished(&folder.path().join("perf.data")).unwrap();
        assert_eq!(
            names,
            ["perf.data.2026112314000001", "perf.data.2026112314000002"]
        );
        assert!(finished(Path::new("/no/such/folder/x")).is_err());
        assert_eq!(folder_of(Path::new("x")), Path::new("."));
    }

    #[test]
    fn a_journal_goes_on_where_it_was_and_is_of_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.data.pushed");
        let name = |nth: u32| OsString::from(format!("perf.data.{nth:016}"));
        let mut journal = Journal::open(&path, "http://a/x").unwrap();
        assert!(!journal.has(&name(1)));
        journal.set(&name(2)).unwrap();
        let journal = Journal::open(&path, "http://a/x").unwrap();
        assert!(journal.has(&name(1)) && journal.has(&name(2)) && !journal.has(&name(3)));
        let other = Journal::open(&path, "http://b/x").unwrap_err();
        assert!(matches!(other, JournalError::OtherServer { .. }));
        fs::write(&path, "what I wrote yesterday").unwrap();
        let none = Journal::open(&path, "http://a/x").unwrap_err();
        assert!(matches!(none, JournalError::NoJournal { .. }));
    }
}
