//! Profiles that other tools wrote, as a [`Profile`]: folded stacks, pprof, the text of `perf script`, the Firefox Profiler's
//! processed format, speedscope's, and CPU profiles of gperftools; all of them also compressed by gzip or Zstandard.
//!
//! Input is hostile: what expands without end, numbers that name nothing, and stacks without end are an
//! [`ImportError`]. Memory and work are bounded by a [`ReadingBudget`]. Text is read line by line and JSON value by value, so
//! memory grows with the tables and not with the input. An input without any sample is an error.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@detect`] | which format an input has |
//! | [`opened`] | inputs, unpacked, with their beginnings looked at |
//! | [`pprof`] | `profile.proto` of pprof |
//! | [`perf_script`] | what `perf script` and `rprof script` print |
//! | [`json`] | processed profiles of the Firefox Profiler, samply and rprof; profiles of speedscope |
//! | [`gperftools`] | CPU profiles of gperftools |
//! | `collector` | samples of all of them, filtered and interned |
//! | `lines` | lines of text |
//! | `wire` | fields of protocol buffers |
//!
//! # Examples
//! ```
//! use std::path::Path;
//! use rprof_import::{Detected, Format, ImportOptions, detect};
//!
//! let text = "sleep 7/8 [001] 12.000005: 1000 cpu-clock: \n\t401000 main+0x10 (/bin/sleep)\n\n";
//! let format = Format::PerfScript;
//! assert_eq!(detect(text.as_bytes(), true), Some(Detected::Profile(format)));
//! let profile = rprof_import::read(format, text.as_bytes(), Path::new("x.txt"), &ImportOptions::default())?;
//! assert_eq!(profile.events[0].name, "cpu-clock");
//! # Ok::<(), rprof_import::ImportError>(())
//! ```

mod collector;
pub mod detect;
pub mod gperftools;
pub mod json;
mod lines;
pub mod opened;
pub mod perf_script;
pub mod pprof;
mod wire;

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

pub use detect::{Detected, detect};
pub use opened::Opened;
use rprof_profile::folded::{self, FoldedError};
pub use rprof_profile::limits::ReadingBudget;
use rprof_profile::{Filter, Profile};

/// Format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Folded stacks.
    Folded,
    /// pprof's `profile.proto`.
    Pprof,
    /// Text of `perf script`.
    PerfScript,
    /// JSON: a processed profile of the Firefox Profiler, or one of speedscope. Which of them its keys tell, in any order.
    Json,
    /// CPU profile of gperftools.
    Gperftools,
}

impl Format {
    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        match self {
            Format::Folded => "folded stacks",
            Format::Pprof => "pprof",
            Format::PerfScript => "perf script text",
            Format::Json => "a JSON profile",
            Format::Gperftools => "a gperftools CPU profile",
        }
    }
}

/// Part of an input that is wanted, and how.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Conditions on samples.
    pub filter: Filter,
    /// Threads are told apart by their numbers, and not by their names alone.
    pub by_thread: bool,
    /// Samples are kept one by one, where they have times.
    pub columns: bool,
    /// Samples are kept one by one as [streams](Profile::streams), where they have times.
    pub streams: bool,
    /// What reading may cost.
    pub budget: ReadingBudget,
}

/// Error of reading an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It could not be read, or its gzip is damaged or cut short.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has folded stacks that cannot be read.
    #[error(transparent)]
    Folded(#[from] FoldedError),
    /// It is damaged, or has no sample.
    #[error("cannot read {} as {}: {what}", path.display(), format.title())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Format that it begins as.
        format: Format,
        /// Fault.
        what: String,
    },
}

/// Fault of an input, without its name.
#[derive(Debug)]
pub(crate) enum Failed {
    Read(io::Error),
    Folded(FoldedError),
    Damaged(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Read(error)
    }
}

impl From<String> for Failed {
    fn from(what: String) -> Failed {
        Failed::Damaged(what)
    }
}

impl From<&str> for Failed {
    fn from(what: &str) -> Failed {
        Failed::Damaged(what.to_owned())
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Read(error) => error.fmt(f),
            Failed::Folded(error) => error.fmt(f),
            Failed::Damaged(what) => f.write_str(what),
        }
    }
}

/// Reads an input of a format, [unpacked](Opened). `source` is used in messages.
///
/// # Errors
/// [`ImportError`], also for an input without any sample.
pub fn read(
    format: Format,
    mut input: impl BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, ImportError> {
    let read = match format {
        Format::Folded => folded::read_within(&mut input, source, &options.filter, &options.budget)
            .map_err(Failed::Folded),
        Format::Pprof => pprof::read(&mut input, source, options),
        Format::PerfScript => perf_script::read(&mut input, source, options),
        Format::Json => json::read(&mut input, source, options),
        Format::Gperftools => gperftools::read(&mut input, source, options),
    };
    read.map_err(|failed| match failed {
        Failed::Read(error) => ImportError::Read {
            path: source.to_owned(),
            source: error,
        },
        Failed::Folded(error) => error.into(),
        Failed::Damaged(what) => ImportError::Damaged {
            path: source.to_owned(),
            format,
            what,
        },
    })
}
