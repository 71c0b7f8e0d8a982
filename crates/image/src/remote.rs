//! Interface to sources of files that are missing on this machine.

use rprof_records::BuildId;
use std::fmt;
use std::path::{Path, PathBuf};

/// Source of files by build-id. Called after all local lookups failed, once per image, from several
/// threads.
pub trait RemoteFiles: fmt::Debug + Send + Sync {
    /// Fetches a file and returns its local path. `None` if unavailable.
    ///
    /// The source must not keep a file that `is_right` rejects.
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
    /// The image itself, which is missing or was replaced.
    Executable,
}

impl RemoteKind {
    /// Returns `debuginfo` or `executable`, the names of debuginfod servers (debuginfod(8),
    /// "Webapi").
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}
