//! Reads profiles of other tools as a [`Profile`]: folded stacks, pprof, the text of `perf script`,
//! processed profiles of the Firefox Profiler, speedscope, and CPU profiles of V8 and gperftools. All of
//! them may be compressed by gzip or Zstandard.
//!
//! Input is untrusted. Decompression bombs, invalid indices and unbounded stacks give an
//! [`ImportError`]. A [`ReadingBudget`] limits memory and work. Text is read by line and JSON by
//! value, so memory grows with the tables and not with the input. An input without samples is an
//! error.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@detect`] | detects the format of an input |
//! | [`opened`] | decompressed inputs with their detected format |
//! | [`pprof`] | pprof's `profile.proto` |
//! | [`perf_script`] | output of `perf script` and `rprof script` |
//! | [`json`] | processed profiles of the Firefox Profiler, samply and rprof; profiles of speedscope and V8 |
//! | [`gperftools`] | CPU profiles of gperftools |
//! | `collector` | filters and interns samples of all formats |
//! | `lines` | lines of text |
//! | `wire` | protocol buffer fields |
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
    /// JSON: a processed profile of the Firefox Profiler, of speedscope or of V8. The keys tell
    /// which.
    Json,
    /// CPU profile of gperftools.
    Gperftools,
}

impl Format {
    /// Returns the display name.
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

/// Import settings.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Conditions on samples.
    pub filter: Filter,
    /// Distinguish threads by tid, not only by name.
    pub by_thread: bool,
    /// Keep individual samples, if they have timestamps.
    pub columns: bool,
    /// Keep individual samples as [streams](Profile::streams), if they have timestamps.
    pub streams: bool,
    /// Limits of memory and work.
    pub budget: ReadingBudget,
}

/// Error in importing a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The input could not be read, or its compression is damaged or truncated.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The folded stacks are invalid.
    #[error(transparent)]
    Folded(#[from] FoldedError),
    /// The input is damaged, or has no samples.
    #[error("cannot read {} as {}: {what}", path.display(), format.title())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Detected format.
        format: Format,
        /// Description of the damage.
        what: String,
    },
}

/// Import error without the file name.
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

/// Skips the byte order mark of a text. Windows editors and shells write one.
fn skip_mark(format: Format, input: &mut dyn BufRead) -> Result<(), Failed> {
    if matches!(format, Format::Folded | Format::PerfScript | Format::Json) {
        let start = input.fill_buf()?;
        let mark = start.len() - detect::without_mark(start).len();
        input.consume(mark);
    }
    Ok(())
}

/// Reads an input of a format, [decompressed](Opened). `source` is used in messages.
///
/// # Errors
/// [`ImportError`], also for an input without samples.
pub fn read(
    format: Format,
    mut input: impl BufRead,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, ImportError> {
    let read = skip_mark(format, &mut input).and_then(|()| match format {
        Format::Folded => folded::read_within(&mut input, source, &options.filter, &options.budget)
            .map_err(Failed::Folded),
        Format::Pprof => pprof::read(&mut input, source, options),
        Format::PerfScript => perf_script::read(&mut input, source, options),
        Format::Json => json::read(&mut input, source, options),
        Format::Gperftools => gperftools::read(&mut input, source, options),
    });
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
