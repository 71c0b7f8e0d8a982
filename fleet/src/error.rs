use datafusion::common::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use rprof_fleet_table::TableError;

/// Failure to read or to keep a fleet's tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The folder or bucket cannot be opened.
    #[error("{data}: {why}")]
    Data {
        /// As it was given.
        data: String,
        /// Cause of the failure.
        why: String,
    },
    /// The store does not answer, or refuses.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// A query failed.
    #[error(transparent)]
    Query(#[from] DataFusionError),
    /// Rows could not be encoded.
    #[error(transparent)]
    Encode(#[from] ParquetError),
    /// Rows could not be encoded.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is nothing that the question is about.
    #[error("{0}")]
    Nothing(String),
    /// Two sides do not compare.
    #[error(transparent)]
    Compare(#[from] rprof_profile::compare::CompareError),
    /// Request without a meaning.
    #[error("{0}")]
    Usage(String),
}
