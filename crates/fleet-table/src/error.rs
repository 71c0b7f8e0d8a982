use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Failure to make or to keep a table's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Rows could not be encoded.
    #[error("cannot encode rows as Parquet: {0}")]
    Encode(#[from] ParquetError),
    /// A time that no calendar has.
    #[error("{0} seconds after 1970 is outside the range of partition names")]
    Time(i64),
    /// A profile whose samples have no times.
    #[error("the profile has no times of samples, and so no windows")]
    NoTimes,
    /// A profile whose times are not those of a calendar.
    #[error(
        "the recording has no time of day; record with `rprof record` or `perf record -k \
         CLOCK_MONOTONIC`"
    )]
    NoTimeOfDay,
    /// A file could not be put in its place.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        error: io::Error,
    },
}
