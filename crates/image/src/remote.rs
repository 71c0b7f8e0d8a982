//! Files that are nowhere on this machine: who can get them is not known here.

use rprof_records::BuildId;
use std::fmt;
use std::path::{Path, PathBuf};

/// Gets files from elsewhere, by build-id.
///
/// It is asked only for what was not found anywhere else, for each image once, by several threads.
pub trait RemoteFiles: fmt::Debug + Send + Sync {
    /// Where the file is now. `None` if it cannot be had.
    ///
    /// `is_right` tells of a file whether it is the one that was asked for; one that is not
    /// must not be kept.
    fn fetch(&self, wanted: &RemoteFile<'_>, is_right: &dyn Fn(&Path) -> bool) -> Option<PathBuf>;
}

/// A file that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct RemoteFile<'a> {
    /// The build-id that it must have.
    pub build_id: &'a BuildId,
    /// What it is.
    pub kind: RemoteKind,
    /// The image for which it is wanted: for messages only.
    pub image: &'a Path,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemoteKind {
    /// Symbols and debug information.
    DebugInfo,
    /// The image itself, which is gone or was replaced.
    Executable,
}

impl RemoteKind {
    /// `debuginfo` or `executable`, as debuginfod servers call them (debuginfod(8), "Webapi").
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}
