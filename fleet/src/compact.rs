//! Compaction: merges the files of an hour, for fewer files and no duplicate stacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use rprof_fleet_table::Table;
use rprof_fleet_table::file::SCHEMA_VERSION;
use rprof_fleet_table::partition::{self, HOUR};

use crate::engine::runtime;
use crate::files::{File, Files, INPUTS, Refused};
use crate::hours::Hours;
use crate::store::Store;
use crate::{FleetError, columns};

/// Maximum size in bytes of a merged file.
const LARGEST: u64 = 128 << 20;

/// Settings of a compaction.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Hours to compact.
    pub hours: Hours,
    /// Current time, in seconds since 1970.
    pub now: i64,
    /// Seconds after its end before an hour is compacted, because hosts still send files.
    pub settle: i64,
    /// Seconds before a merged input is deleted, because queries may still read it.
    pub grace: i64,
}

/// Result of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Merged input files.
    pub inputs: usize,
    /// Their size in bytes.
    pub bytes_before: u64,
    /// Files that replace them.
    pub written: usize,
    /// Their size in bytes.
    pub bytes_after: u64,
    /// Inputs deleted after their rows were merged.
    pub deleted: usize,
    /// Merged inputs within the grace period.
    pub waiting: usize,
    /// Files that could not be read.
    pub refused: Vec<Refused>,
}

/// Merges the files of each table and hour, and deletes merged inputs after a grace period.
///
/// It never changes a file, and writes are atomic. So it can be interrupted and restarted at any
/// time, and two may run at once.
///
/// # Errors
/// The store fails.
pub async fn compact(store: &Store, options: &Options) -> Result<Outcome, FleetError> {
    let mut outcome = Outcome::default();
    for table in Table::ALL {
        let mut files = Files::of(store, table, options.hours).await?;
        for file in &files.superseded {
            match is_safe_to_delete(file, &files.live, options) {
                true => {
                    store.delete(&file.path).await?;
                    outcome.deleted += 1;
                }
                false => outcome.waiting += 1,
            }
        }
        let ended = |file: &File| file.hour + HOUR + options.settle <= options.now;
        for batch in batches(
            files
                .live
                .iter()
                .filter(|file| ended(file) && !file.has_more),
        ) {
            match merge(store, table, &batch).await {
                Ok(size) => {
                    outcome.inputs += batch.len();
                    outcome.bytes_before += batch.iter().map(|file| file.size).sum::<u64>();
                    outcome.written += 1;
                    outcome.bytes_after += size;
                    outcome.waiting += batch.len();
                }
                // Skips damaged files, and merges the rest of the batch.
                Err(error) => {
                    let mut whole = Files {
                        live: batch.iter().map(|file| (*file).clone()).collect(),
                        ..Files::default()
                    };
                    if whole.refuse_damaged(store).await.is_empty() {
                        return Err(error);
                    }
                    files.refused.extend(whole.refused);
                    let rest: Vec<&File> = whole.live.iter().collect();
                    if rest.len() > 1 {
                        outcome.bytes_after += merge(store, table, &rest).await?;
                        outcome.inputs += rest.len();
                        outcome.bytes_before += rest.iter().map(|file| file.size).sum::<u64>();
                        outcome.written += 1;
                        outcome.waiting += rest.len();
                    }
                }
            }
        }
        outcome.refused.extend(files.refused);
    }
    Ok(outcome)
}

/// Returns whether other current files have contained all rows of this file for the grace period.
fn is_safe_to_delete(file: &File, live: &[File], options: &Options) -> bool {
    let of_hour = || live.iter().filter(|other| other.hour == file.hour);
    let has = |other: &&File, input: &String| other.inputs.binary_search(input).is_ok();
    let mut newest = i64::MIN;
    let covered = file.inputs.iter().all(|input| {
        let holder = of_hour().find(|other| has(other, input));
        newest = newest.max(holder.map_or(i64::MAX, |holder| holder.modified));
        holder.is_some()
    });
    covered && newest.saturating_add(options.grace) <= options.now
}

/// Groups the files of each hour into batches that are worth merging.
fn batches<'f>(files: impl Iterator<Item = &'f File>) -> Vec<Vec<&'f File>> {
    let mut hours: BTreeMap<i64, Vec<Vec<&File>>> = BTreeMap::new();
    for file in files {
        let batches = hours.entry(file.hour).or_default();
        let room = |batch: &&mut Vec<&File>| {
            batch.iter().map(|file| file.size).sum::<u64>() + file.size <= LARGEST
        };
        match batches.last_mut().filter(room) {
            Some(batch) => batch.push(file),
            None => batches.push(vec![file]),
        }
    }
    let all = hours.into_values().flatten();
    all.filter(|batch| batch.len() > 1).collect()
}

async fn merge(store: &Store, table: Table, files: &[&File]) -> Result<u64, FleetError> {
    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config_rt(config, runtime()?);
    let urls: Result<Vec<ListingTableUrl>, FleetError> = (files.iter())
        .map(|file| Ok(ListingTableUrl::parse(store.url(&file.path)?)?))
        .collect();
    context.register_object_store(store.base(), store.objects());
    let listing =
        ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
    let config = ListingTableConfig::new_with_multi_paths(urls?)
        .with_listing_options(listing)
        .with_schema(columns::read(table)?);
    context.register_table("files", Arc::new(ListingTable::try_new(config)?))?;
    let mut rows = context.sql(rows_of(table)).await?.execute_stream().await?;

    let mut inputs: Vec<&str> = files
        .iter()
        .flat_map(|file| &file.inputs)
        .map(String::as_str)
        .collect();
    inputs.sort_unstable();
    inputs.dedup();
    let schema = columns::written(table)?;
    let options = ArrowWriterOptions::new()
        .with_properties(properties(table, files, &inputs)?)
        .with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options)?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(&as_written(&batch, &schema)?)?;
    }
    let bytes = writer.into_inner()?;
    let size = bytes.len() as u64;
    let hour = files.first().map_or(0, |file| file.hour);
    let path = partition::path(table, "compacted", hour, &bytes)?;
    store.put(&path, bytes).await?;
    Ok(size)
}

/// Returns the query for the rows of a compacted file, in file order.
fn rows_of(table: Table) -> &'static str {
    match table {
        Table::Samples => {
            "SELECT * FROM files ORDER BY service, version, namespace, pod, container_id, event, stack_id, window_start, \
             comm, thread, host, samples, value"
        }
        Table::Hosts => "SELECT * FROM files ORDER BY host, window_start, window_us",
        Table::Images => {
            "SELECT DISTINCT * FROM files ORDER BY image_id, path, build_id, kind, symbols"
        }
        Table::Stacks => {
            "SELECT stack_id, first_value(location_ids) AS location_ids FROM files GROUP BY stack_id ORDER BY stack_id"
        }
        Table::Locations => {
            "SELECT location_id, first_value(image_id) AS image_id, first_value(address) AS address FROM files \
             GROUP BY location_id ORDER BY location_id"
        }
        // Keeps all names of the highest rank. Readers choose among them.
        _ => {
            "SELECT DISTINCT location_id, symbols_rank, lines FROM \
             (SELECT *, max(symbols_rank) OVER (PARTITION BY location_id) AS best FROM files) WHERE symbols_rank = best \
             ORDER BY location_id"
        }
    }
}

/// Returns rows with the types and names of the file schema.
fn as_written(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, FleetError> {
    let columns: Result<Vec<_>, DataFusionError> = (schema.fields().iter())
        .map(|field| {
            let column = batch.column_by_name(field.name()).ok_or_else(|| {
                DataFusionError::Internal(format!("no column {} among the rows", field.name()))
            })?;
            cast(column, field.data_type()).map_err(DataFusionError::from)
        })
        .collect();
    Ok(RecordBatch::try_new(schema.clone(), columns?).map_err(DataFusionError::from)?)
}

/// Returns the properties of host-written files, plus the names of the inputs.
fn properties(
    table: Table,
    files: &[&File],
    inputs: &[&str],
) -> Result<WriterProperties, FleetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(concat!("rprof-fleet ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            KeyValue::new("rprof.schema".to_owned(), SCHEMA_VERSION.to_owned()),
            KeyValue::new(INPUTS.to_owned(), inputs.join("\n")),
        ]));
    if let Some(key) = table.key() {
        let column = ColumnPath::from(key);
        let rows: i64 = files.iter().map(|file| file.rows).sum();
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_bloom_filter_enabled(column.clone(), true)
            .set_column_bloom_filter_max_ndv(column, rows.clamp(1, 1 << 20).cast_unsigned());
    }
    Ok(properties.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(hour: i64, name: &str, size: u64, inputs: &[&str]) -> File {
        File {
            path: format!("stacks/date=x/hour=y/{name}"),
            hour,
            size,
            modified: 100,
            rows: 1,
            has_more: false,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        }
    }

    fn options(now: i64, grace: i64) -> Options {
        Options {
            hours: Hours::default(),
            now,
            settle: 0,
            grace,
        }
    }

    #[test]
    fn inputs_are_deleted_after_the_grace_time_and_if_all_of_them_is_elsewhere() {
        let live = [file(0, "ab", 1, &["a", "b"])];
        let a = file(0, "a", 1, &["a"]);
        assert!(!is_safe_to_delete(&a, &live, &options(109, 10)));
        assert!(is_safe_to_delete(&a, &live, &options(110, 10)));
        let other_hour = file(3_600, "a", 1, &["a"]);
        assert!(!is_safe_to_delete(&other_hour, &live, &options(1_000, 10)));
        let bc = file(0, "bc", 1, &["b", "c"]);
        assert!(!is_safe_to_delete(&bc, &live, &options(1_000, 10)));
    }

    #[test]
    fn hours_stay_apart_and_large_files_alone() {
        let files = [
            file(0, "a", 1, &["a"]),
            file(0, "b", 1, &["b"]),
            file(0, "c", LARGEST, &["c"]),
            file(3_600, "d", 1, &["d"]),
        ];
        let names: Vec<Vec<&str>> = (batches(files.iter()).iter())
            .map(|batch| batch.iter().map(|file| file.name()).collect())
            .collect();
        assert_eq!(names, [["a", "b"]]);
    }
}
