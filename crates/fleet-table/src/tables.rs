//! [`Tables`]: rows of all tables of one host and hour, as files.

use crate::rows::{FrameRow, HostRow, ImageRow, LocationRow, SampleRow, StackRow, TableRow};
use crate::{FleetTableError, Table, file, partition};

/// Rows of all tables, of one host and one hour.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Rows of [`Table::Images`].
    pub images: Vec<ImageRow>,
    /// Rows of [`Table::Frames`].
    pub frames: Vec<FrameRow>,
    /// Rows of [`Table::Locations`].
    pub locations: Vec<LocationRow>,
    /// Rows of [`Table::Stacks`].
    pub stacks: Vec<StackRow>,
    /// Rows of [`Table::Hosts`].
    pub hosts: Vec<HostRow>,
    /// Rows of [`Table::Samples`].
    pub samples: Vec<SampleRow>,
}

/// Encoded Parquet file of one table, with its path below the fleet's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// Path below the fleet's folder: see [`partition::path`].
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Tables {
    /// Encodes all non-empty tables, in write order ([`Table::ALL`]). `begin` is any time within
    /// the hour, in seconds since 1970.
    ///
    /// # Errors
    /// The rows cannot be encoded, or the time is outside of the calendar's range.
    pub fn files(&mut self, host: &str, begin: i64) -> Result<Vec<TableFile>, FleetTableError> {
        let mut files = Vec::new();
        for table in Table::ALL {
            let found = match table {
                Table::Images => encode(&mut self.images, host, begin),
                Table::Frames => encode(&mut self.frames, host, begin),
                Table::Locations => encode(&mut self.locations, host, begin),
                Table::Stacks => encode(&mut self.stacks, host, begin),
                Table::Hosts => encode(&mut self.hosts, host, begin),
                Table::Samples => encode(&mut self.samples, host, begin),
            };
            files.extend(found?);
        }
        Ok(files)
    }
}

fn encode<R: TableRow>(
    rows: &mut [R],
    host: &str,
    begin: i64,
) -> Result<Option<TableFile>, FleetTableError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let bytes = file::encode(rows)?;
    let path = partition::path(R::TABLE, host, begin, &bytes)?;
    Ok(Some(TableFile { path, bytes }))
}
