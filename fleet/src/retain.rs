//! Old dates dropped.

use chrono::NaiveDate;
use rprof_fleet_table::Table;

use crate::FleetError;
use crate::store::Store;

/// Files of dates before a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Dates, in order.
    pub dates: Vec<NaiveDate>,
    /// Paths below the tables' folder.
    pub paths: Vec<String>,
    /// Bytes of them.
    pub bytes: u64,
}

/// Finds the files of all dates before a day.
///
/// # Errors
/// The store does not answer.
pub async fn before(store: &Store, day: NaiveDate) -> Result<Dropped, FleetError> {
    let mut dropped = Dropped::default();
    // Samples first: what is left of a date that was begun is names, and no amounts without names.
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

/// Deletes files that were found.
///
/// # Errors
/// The store refuses.
pub async fn drop_files(store: &Store, dropped: &Dropped) -> Result<(), FleetError> {
    for path in &dropped.paths {
        store.delete(path).await?;
    }
    Ok(())
}
