//! Deletion of old dates.

use chrono::NaiveDate;
use rprof_fleet_table::Table;

use crate::FleetError;
use crate::store::Store;

/// Files to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Dates, sorted.
    pub dates: Vec<NaiveDate>,
    /// Paths below the tables' folder.
    pub paths: Vec<String>,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Finds the files of all dates before a day.
///
/// # Errors
/// The store fails.
pub async fn before(store: &Store, day: NaiveDate) -> Result<Dropped, FleetError> {
    let mut dropped = Dropped::default();
    // Samples first: an interrupted deletion leaves names without samples, but no samples without
    // names.
    for table in Table::ALL.into_iter().rev() {
        for object in store.list(table.name()).await?.0 {
            let path = store.relative(&object.location);
            let date = path
                .split('/')
                .nth(1)
                .and_then(|part| part.strip_prefix("date="));
            let date = date.and_then(|date| NaiveDate::parse_from_str(date, "%Y-%m-%d").ok());
            let Some(date) = date.filter(|date| *date < day && path.ends_with(".parquet")) else {
                continue;
            };
            dropped.bytes += object.size;
            dropped.dates.push(date);
            dropped.paths.push(path);
        }
    }
    dropped.dates.sort_unstable();
    dropped.dates.dedup();
    Ok(dropped)
}

/// Deletes the files found.
///
/// # Errors
/// The store refuses a deletion.
pub async fn drop_files(store: &Store, dropped: &Dropped) -> Result<(), FleetError> {
    for path in &dropped.paths {
        store.delete(path).await?;
    }
    Ok(())
}
