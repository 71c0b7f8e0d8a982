//! Profiles that other tools wrote, as a [`Profile`]: pprof, the text of `perf script`, and the Firefox Profiler's
//! processed format. Folded stacks are read by [`rprof_profile::folded`].
//!
//! Input is hostile: what expands without end, numbers that name nothing, and stacks without end are an
//! [`ImportError`]; memory is bounded by [`MOST_BYTES`] of text.
//!
//! | module | holds |
//! |---|---|
//! | [`pprof`] | `profile.proto` of pprof, with or without gzip |
//! | [`perf_script`] | what `perf script` and `rprof script` print |
//! | [`firefox`] | processed profiles of the Firefox Profiler, samply and rprof |
//! | `collector` | samples of all of them, filtered and interned |
//! | `wire` | fields of protocol buffers |
//!
//! # Examples
//! ```
//! use std::path::Path;
//! use rprof_import::{Format, ImportOptions};
//!
//! let text = "sleep 7/8 [001] 12.000005: 1000 cpu-clock: \n\t401000 main+0x10 (/bin/sleep)\n\n";
//! let format = Format::detect(text.as_bytes()).expect("one that is known");
//! assert_eq!(format, Format::PerfScript);
//! let profile = rprof_import::read(format, text.as_bytes(), Path::new("x.txt"), &ImportOptions::default())?;
//! assert_eq!(profile.events[0].name, "cpu-clock");
//! # Ok::<(), rprof_import::ImportError>(())
//! ```

mod collector;
pub mod firefox;
pub mod perf_script;
pub mod pprof;
mod wire;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rprof_profile::{Filter, Profile};

/// Most bytes that an input may have, or expand to.
pub const MOST_BYTES: u64 = 1 << 30;

/// Format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// pprof's `profile.proto`.
    Pprof,
    /// Text of `perf script`.
    PerfScript,
    /// Processed profile of the Firefox Profiler.
    Firefox,
}

impl Format {
    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        match self {
            Format::Pprof => "pprof",
            Format::PerfScript => "the text of perf script",
            Format::Firefox => "the Firefox Profiler's format",
        }
    }

    /// Returns the format of an input by its first bytes, some KiB of it; `None` if it is none of these.
    pub fn detect(start: &[u8]) -> Option<Format> {
        if start.starts_with(&GZIP) {
            let mut inside = Vec::new();
            // Whatever can be had of it.
            MultiGzDecoder::new(start)
                .take(4096)
                .read_to_end(&mut inside)
                .ok();
            return match inside.first()? {
                b'{' => Some(Format::Firefox),
                _ => pprof::is_pprof(&inside).then_some(Format::Pprof),
            };
        }
        if start.starts_with(b"{") {
            let names = [
                &b"\"preprocessedProfileVersion\""[..],
                b"\"meta\"",
                b"\"shared\"",
                b"\"libs\"",
            ];
            let is_known = names
                .iter()
                .any(|name| start.windows(name.len()).any(|part| part == *name));
            return is_known.then_some(Format::Firefox);
        }
        if pprof::is_pprof(start) {
            return Some(Format::Pprof);
        }
        perf_script::is_perf_script(start).then_some(Format::PerfScript)
    }
}

/// First bytes of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

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
}

/// Reason for which there is no profile of an input.
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
    /// It has more bytes than are read.
    #[error("{} has, or expands to, more than {} MiB; export less of it", path.display(), MOST_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not what it begins as.
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

/// Reads an input of a format. `source` is used in messages.
///
/// # Errors
/// [`ImportError`].
pub fn read(
    format: Format,
    input: impl Read,
    source: &Path,
    options: &ImportOptions,
) -> Result<Profile, ImportError> {
    let bytes = bytes(input, source)?;
    let read = match format {
        Format::Pprof => pprof::read(&bytes, source, options),
        Format::PerfScript => perf_script::read(&bytes, source, options),
        Format::Firefox => firefox::read(&bytes, source, options),
    };
    read.map_err(|what| ImportError::Damaged {
        path: source.to_owned(),
        format,
        what,
    })
}

/// Returns the bytes of an input, expanded.
fn bytes(input: impl Read, source: &Path) -> Result<Vec<u8>, ImportError> {
    let failed = |error| ImportError::Read {
        path: source.to_owned(),
        source: error,
    };
    let bytes = bounded(input, source)?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut expanded = Vec::new();
    let mut decoder = MultiGzDecoder::new(&bytes[..]).take(MOST_BYTES + 1);
    decoder.read_to_end(&mut expanded).map_err(failed)?;
    fits(expanded, source)
}

fn bounded(input: impl Read, source: &Path) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    input
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ImportError::Read {
            path: source.to_owned(),
            source: error,
        })?;
    fits(bytes, source)
}

fn fits(bytes: Vec<u8>, source: &Path) -> Result<Vec<u8>, ImportError> {
    match bytes.len() as u64 > MOST_BYTES {
        true => Err(ImportError::TooLarge {
            path: source.to_owned(),
        }),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn formats_are_known_by_their_beginnings() {
        let firefox = br#"{"meta":{"preprocessedProfileVersion":60}}"#;
        assert_eq!(Format::detect(firefox), Some(Format::Firefox));
        assert_eq!(Format::detect(&gzip(firefox)), Some(Format::Firefox));
        for other in [
            &b"PERFILE2"[..],
            b"main;work 3\n",
            b"",
            b"{\"a\":1}",
            b"\x1f\x8b",
            b"hello\n",
        ] {
            assert_eq!(Format::detect(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let whole = gzip(br#"{"meta":{},"threads":[]}"#);
        let cut = &whole[..whole.len() - 6];
        let error = read(
            Format::Firefox,
            cut,
            Path::new("x"),
            &ImportOptions::default(),
        );
        assert!(matches!(error, Err(ImportError::Read { .. })), "{error:?}");
    }
}
