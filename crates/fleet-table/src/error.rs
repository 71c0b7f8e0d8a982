use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Error in building or writing a table file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetTableError {
    /// Rows could not be encoded.
    #[error("cannot encode rows as Parquet: {0}")]
    Encode(#[from] ParquetError),
    /// A time outside of the calendar's range.
    #[error("{0} seconds after 1970 is outside the range of partition names")]
    Time(i64),
    /// The profile's samples have no timestamps.
    #[error("the profile has no times of samples, and so no windows")]
    NoTimes,
    /// The profile's timestamps do not refer to the time of day.
    #[error(
        "the recording has no time of day; record with `rprof record` or `perf record -k \
         CLOCK_MONOTONIC`"
    )]
    NoTimeOfDay,
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        error: io::Error,
    },
}
