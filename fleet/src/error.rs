use datafusion::common::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use rprof_fleet_table::FleetTableError;

/// Error in reading or writing a fleet's tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The folder or bucket cannot be opened.
    #[error("{data}: {why}")]
    Data {
        /// Folder or bucket as given.
        data: String,
        /// Cause.
        why: String,
    },
    /// The store does not respond, or refuses a request.
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
    Table(#[from] FleetTableError),
    /// No data matches the query.
    #[error("{0}")]
    Nothing(String),
    /// The two sides are not comparable.
    #[error(transparent)]
    Compare(#[from] rprof_profile::compare::CompareError),
    /// Invalid request.
    #[error("{0}")]
    Usage(String),
}
