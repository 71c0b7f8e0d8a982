//! [`Sources`]: lookup of machine-specific names.

use crate::pmu::EVENT_SOURCES;
use crate::tracefs::{Tracefs, TracefsError};
use std::fmt;
use std::path::{Path, PathBuf};

/// Finds functions in programs, for `uprobe:/path:function`.
pub trait Resolver {
    /// Returns the file offset in bytes of `function` in `program`.
    ///
    /// # Errors
    /// Returns the cause, as a sentence for the user.
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String>;
}

#[derive(Clone)]
pub(crate) struct Sources<'a> {
    /// Folder of PMUs, such as [`EVENT_SOURCES`].
    pub(crate) pmus: PathBuf,
    /// Mount point of tracefs; `None` to find it.
    pub(crate) tracefs: Option<PathBuf>,
    /// `None` disables functions of programs.
    pub(crate) resolver: Option<&'a dyn Resolver>,
}

impl Default for Sources<'_> {
    fn default() -> Self {
        Sources {
            pmus: PathBuf::from(EVENT_SOURCES),
            tracefs: None,
            resolver: None,
        }
    }
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("pmus", &self.pmus)
            .field("tracefs", &self.tracefs)
            .field("resolver", &self.resolver.is_some())
            .finish()
    }
}

impl Sources<'_> {
    pub(crate) fn tracefs(&self) -> Result<Tracefs, TracefsError> {
        match &self.tracefs {
            Some(root) => Tracefs::open(root),
            None => Tracefs::find(),
        }
    }
}
