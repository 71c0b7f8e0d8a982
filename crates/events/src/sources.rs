//! Where names are looked up that only a machine knows.

use crate::pmu::EVENT_SOURCES;
use crate::tracefs::{Tracefs, TracefsError};
use std::fmt;
use std::path::{Path, PathBuf};

/// Finds functions in programs.
pub trait Resolver {
    /// Where in the file `program` the code of `function` begins: a file offset in bytes.
    ///
    /// # Errors
    /// What is wrong, as a sentence for the user.
    fn file_offset(&self, program: &Path, function: &str) -> Result<u64, String>;
}

/// Where names are looked up.
#[derive(Clone)]
pub(crate) struct Sources<'a> {
    /// Folder of PMUs.
    pub(crate) pmus: PathBuf,
    pub(crate) tracefs: Option<PathBuf>,
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
            Some(root) => Tracefs::at(root),
            None => Tracefs::find(),
        }
    }
}
