//! Messages for the user about embedded files and failures to embed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rprof_perfdata::EmbeddedFile;

const MAX_NOTICES: usize = 20;

/// Message about a file that reports need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Programs and libraries were embedded, because their paths do not name them from here.
    ImagesEmbedded {
        /// Path of the first, as its process saw it.
        first: PathBuf,
        /// Number of images.
        count: usize,
        /// Total bytes before compression.
        bytes: u64,
        /// Number of images without code, because they have few samples.
        without_code: usize,
    },
    /// A program or library that its path does not name from here is too long to embed, alone or
    /// with the others.
    ImageTooLong {
        /// Path as its process saw it.
        path: PathBuf,
        /// Length in bytes.
        bytes: u64,
        /// Number of further images.
        others: usize,
    },
    /// Programs or libraries disappeared before they could be copied.
    ImageGone {
        /// Path of the first, as its process saw it.
        path: PathBuf,
        /// Number of further images.
        others: usize,
    },
    /// Too many programs and libraries were sampled; some may be missing.
    TooManyImages {
        /// Maximum number of images.
        known: usize,
        /// Number of images beyond it.
        left_out: usize,
    },
    /// A file was not embedded.
    NotEmbedded {
        /// Path as its process saw it.
        path: PathBuf,
        /// Reason.
        reason: NotEmbedded,
    },
    /// A perf map has invalid lines, which were not embedded.
    BadLines {
        /// Path as its process saw it.
        path: PathBuf,
        /// Number of lines.
        lines: u64,
    },
    /// Too many processes may generate code; perf maps of further ones are not embedded.
    TooManyRuntimes {
        /// Maximum number of processes.
        followed: usize,
    },
}

/// Name of an embedded file.
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

/// Reason why a file was not embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEmbedded {
    /// The file is damaged, or reading is not allowed; contains the error text.
    Unusable(String),
    /// The space for such files is used up.
    NoRoom,
    /// It has no valid perf map line.
    NoEntries,
    /// Its process may not read it, or rprof may not without its capabilities.
    NotReadable,
}

#[derive(Debug, Default)]
pub(super) struct Notices(Vec<Notice>);

impl Notices {
    pub(super) fn push(&mut self, notice: Notice) {
        if self.0.len() < MAX_NOTICES && !self.0.contains(&notice) {
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
        assert_eq!(notices.len(), MAX_NOTICES);
        let expected = (1..).map(|followed| Notice::TooManyRuntimes { followed });
        assert!(notices.into_iter().eq(expected.take(MAX_NOTICES)));
    }
}
