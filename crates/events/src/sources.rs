//! [`Sources`]: folders and the resolver by which names of this machine are looked up.

use crate::pmu::EVENT_SOURCES;
use crate::tracefs::{Tracefs, TracefsError};
use std::fmt;
use std::path::{Path, PathBuf};

/// Finds functions in programs, for `uprobe:/path:function`.
pub trait Resolver {
    /// Returns the offset in bytes in the file `program` at which the code of `function` begins.
    ///
    /// # Errors
    /// The cause, as a sentence for the user.
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String>;
}

/// Folders and the resolver by which names are looked up.
#[derive(Clone)]
pub(crate) struct Sources<'a> {
    /// Folder of PMUs, as [`EVENT_SOURCES`].
    pub(crate) pmus: PathBuf,
    /// Mount point of tracefs; `None` to find it.
    pub(crate) tracefs: Option<PathBuf>,
    /// `None`: functions of programs cannot be named.
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
    /// Opens tracefs.
    pub(crate) fn tracefs(&self) -> Result<Tracefs, TracefsError> {
        match &self.tracefs {
            Some(root) => Tracefs::open(root),
            None => Tracefs::find(),
        }
    }
}
