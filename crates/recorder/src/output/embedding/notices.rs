//! Notices of files that reports will need: embedded in the recording, or not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rprof_perfdata::EmbeddedFile;

/// Most notices.
const MOST_NOTICES: usize = 20;

/// Something that the user should know of files that reports will need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Programs and libraries that cannot be found by their paths from here are in the recording.
    ImagesEmbedded {
        /// Path of the first of them, as its process saw it.
        first: PathBuf,
        /// Number of them.
        count: usize,
        /// Bytes of all, before compression.
        bytes: u64,
        /// Number of those without their code, as there are few samples for it.
        without_code: usize,
    },
    /// A program or library cannot be found by its path from here, and is too long to be embedded, or all of
    /// them together are.
    ImageTooLong {
        /// Path as its process saw it.
        path: PathBuf,
        /// Length in bytes.
        bytes: u64,
        /// Number of others.
        others: usize,
    },
    /// Programs or libraries are not at their paths any more, and were gone before they could be copied.
    ImageGone {
        /// Path of the first of them, as its process saw it.
        path: PathBuf,
        /// Number of others.
        others: usize,
    },
    /// Samples lie in more programs and libraries than are followed: some may be missing.
    TooManyImages {
        /// Number that is followed.
        known: usize,
        /// Number of the others.
        left_out: usize,
    },
    /// A file is not embedded.
    NotEmbedded {
        /// Path as its process saw it.
        path: PathBuf,
        /// Why.
        reason: NotEmbedded,
    },
    /// Lines of a perf map are no entries, and are not embedded.
    BadLines {
        /// Path as its process saw it.
        path: PathBuf,
        /// Number of lines.
        lines: u64,
    },
    /// More processes than are followed may make code at run time: perf maps of others are not
    /// embedded.
    TooManyRuntimes {
        /// Number of processes that are followed.
        followed: usize,
    },
}

/// File that is embedded in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedName {
    /// Path as its process saw it.
    pub path: PathBuf,
    /// Length in bytes, before compression.
    pub bytes: u64,
}

impl EmbeddedName {
    pub(crate) fn of(file: &EmbeddedFile<'_>) -> EmbeddedName {
        EmbeddedName {
            path: PathBuf::from(OsStr::from_bytes(&file.path)),
            bytes: file.len,
        }
    }
}

/// Why a file is not embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEmbedded {
    /// The file may not be read, or is damaged: text of the error.
    Unusable(String),
    /// There are as many bytes of such files in the recording as there may be.
    NoRoom,
    /// There is no line in it as a perf map has them.
    NoEntries,
    /// Its process, or this program without its capabilities, may not read it.
    NotReadable,
}

/// Notices, each once, and not too many.
#[derive(Debug, Default)]
pub(super) struct Notices(Vec<Notice>);

impl Notices {
    pub(super) fn push(&mut self, notice: Notice) {
        if self.0.len() < MOST_NOTICES && !self.0.contains(&notice) {
            self.0.push(notice);
        }
    }

    pub(super) fn into_vec(self) -> Vec<Notice> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_not_too_many() {
        let mut notices = Notices::default();
        for n in [1, 1, 2].into_iter().chain(3..100) {
            notices.push(Notice::TooManyRuntimes { followed: n });
        }
        let notices = notices.into_vec();
        assert_eq!(notices.len(), MOST_NOTICES);
        let expected = (1..).map(|followed| Notice::TooManyRuntimes { followed });
        assert!(notices.into_iter().eq(expected.take(MOST_NOTICES)));
    }
}
