//! Interface to sources of files that are nowhere on this machine.

use rprof_records::BuildId;
use std::fmt;
use std::path::{Path, PathBuf};

/// Source of files, by build-id.
///
/// It is asked only for what was not found anywhere else, for each image once, by several threads.
pub trait RemoteFiles: fmt::Debug + Send + Sync {
    /// Gets a file, and returns its path on this machine. Returns `None` if it cannot be had.
    ///
    /// `is_right` tells of a file whether it is the one that was asked for; one that is not
    /// must not be kept.
    fn fetch(&self, wanted: &RemoteFile<'_>, is_right: &dyn Fn(&Path) -> bool) -> Option<PathBuf>;
}

/// Request for a file.
#[derive(Debug, Clone, Copy)]
pub struct RemoteFile<'a> {
    /// Build-id that the file must have.
    pub build_id: &'a BuildId,
    /// Kind of file.
    pub kind: RemoteKind,
    /// Image that lacks the file, for messages only.
    pub image: &'a Path,
}

/// Kind of a requested file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemoteKind {
    /// Symbols and debug information.
    DebugInfo,
    /// The image itself, which is gone or was replaced.
    Executable,
}

impl RemoteKind {
    /// Returns `debuginfo` or `executable`, as debuginfod servers call them (debuginfod(8),
    /// "Webapi").
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}
