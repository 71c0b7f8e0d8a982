//! [`Files`]: the current files of a table, and the skipped ones with the reason.
//!
//! # Compacted files
//! A compacted file lists the host-written files that its rows came from, in its metadata under
//! [`INPUTS`]. If it merges other compacted files, it lists their inputs. So each file stands for a
//! set of host-written files; a host-written file stands for itself. If two sets overlap, only the
//! file with the larger set is current. No other coordination is needed. A reader gets each row
//! once, whether inputs still exist, are deleted, or were sent again by a host.

use std::collections::HashSet;

use datafusion::arrow::datatypes::Schema;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use futures::StreamExt;
use object_store::{ObjectMeta, ObjectStoreExt};
use rprof_fleet_table::Table;
use rprof_fleet_table::file::SCHEMA_VERSION;

use crate::hours::{Hours, hour_of};
use crate::store::Store;
use crate::{FleetError, columns};

/// Metadata key for the inputs of a compacted file: file names in its own partition, one per line.
pub const INPUTS: &str = "rprof.inputs";

/// Number of bytes at the end of a file to read first. Most footers are shorter.
const FOOTER: u64 = 16 << 10;

/// Maximum number of footers read concurrently.
const AT_ONCE: usize = 32;

/// File of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the folder of the tables.
    pub path: String,
    /// Start of its hour, in seconds since 1970.
    pub hour: i64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, in seconds since 1970.
    pub modified: i64,
    /// Number of rows, from its footer.
    pub rows: i64,
    /// True if it has unknown columns, from a later version.
    pub has_more: bool,
    /// Sorted names of the host-written files that its rows came from. For a host-written file, its
    /// own name.
    pub inputs: Vec<String>,
}

impl File {
    /// Returns the file name without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns true if compaction wrote the file.
    pub fn is_compacted(&self) -> bool {
        self.inputs != [self.name()]
    }
}

/// Skipped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Path below the folder of the tables.
    pub path: String,
    /// Reason for people.
    pub why: String,
}

/// Files of a table.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Current files, sorted by path.
    pub live: Vec<File>,
    /// Files whose rows are in another current file.
    pub superseded: Vec<File>,
    /// Damaged or foreign files.
    pub refused: Vec<Refused>,
}

impl Files {
    /// Lists the files of a table in some hours, and reads their footers.
    ///
    /// # Errors
    /// The store fails. An unreadable file is no error, but [refused](Files::refused).
    pub async fn of(store: &Store, table: Table, hours: Hours) -> Result<Files, FleetError> {
        let mut refused = Vec::new();
        let mut wanted = Vec::new();
        let (listed, impossible) = store.list(table.name()).await?;
        refused.extend(impossible.into_iter().map(|why| Refused {
            path: format!("{}/…", table.name()),
            why,
        }));
        for object in listed {
            let path = store.relative(&object.location);
            let name = path.rsplit('/').next().unwrap_or(&path);
            // Engines also ignore these names: incomplete files and metadata.
            if !name.ends_with(".parquet") || name.starts_with(['.', '_']) {
                continue;
            }
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            match hour_of(&path) {
                _ if !name.chars().all(is_plain) => refused.push(Refused {
                    path,
                    why: "no file of a table has such a name".to_owned(),
                }),
                Some(hour) if hours.has(hour) => wanted.push((path, hour, object)),
                Some(_) => {}
                None => refused.push(Refused {
                    path,
                    why: "it lies in no partition date=YYYY-MM-DD/hour=HH".to_owned(),
                }),
            }
        }
        let expected = columns::read(table)?;
        let read = futures::stream::iter(wanted.into_iter().map(|(path, hour, object)| {
            let expected = expected.clone();
            async move {
                let found = footer(store, &object).await;
                let found = found
                    .and_then(|footer| check(&footer, &expected).map(|inputs| (footer, inputs)));
                (path, hour, object, found)
            }
        }));
        let mut found = Vec::new();
        for (path, hour, object, footer) in read.buffered(AT_ONCE).collect::<Vec<_>>().await {
            match footer {
                Ok((footer, inputs)) => {
                    let own = || vec![path.rsplit('/').next().unwrap_or(&path).to_owned()];
                    found.push(File {
                        hour,
                        size: object.size,
                        modified: object.last_modified.timestamp(),
                        rows: footer.file_metadata().num_rows(),
                        has_more: footer
                            .file_metadata()
                            .schema_descr()
                            .root_schema()
                            .get_fields()
                            .len()
                            > expected.fields().len(),
                        inputs: inputs.unwrap_or_else(own),
                        path,
                    });
                }
                Err(why) => refused.push(Refused { path, why }),
            }
        }
        let (live, superseded) = choose(found);
        Ok(Files {
            live,
            superseded,
            refused,
        })
    }

    /// Removes and returns files that cannot be read completely.
    pub async fn refuse_damaged(&mut self, store: &Store) -> Vec<Refused> {
        let mut damaged = Vec::new();
        for file in std::mem::take(&mut self.live) {
            match read_all(store, &file).await {
                Ok(()) => self.live.push(file),
                Err(why) => damaged.push(Refused {
                    path: file.path,
                    why,
                }),
            }
        }
        self.refused.extend(damaged.iter().cloned());
        damaged
    }
}

/// Separates current files from superseded ones.
fn choose(mut files: Vec<File>) -> (Vec<File>, Vec<File>) {
    files.sort_by(|a, b| {
        let size = |file: &File| std::cmp::Reverse(file.inputs.len());
        // Of equal sets, the compacted file wins, because its input may be deleted at any time.
        (size(a), !a.is_compacted(), &a.path).cmp(&(size(b), !b.is_compacted(), &b.path))
    });
    let mut taken: HashSet<(i64, String)> = HashSet::new();
    let (mut live, mut superseded) = (Vec::new(), Vec::new());
    for file in files {
        let key = |input: &String| (file.hour, input.clone());
        if file.inputs.iter().any(|input| taken.contains(&key(input))) {
            superseded.push(file);
            continue;
        }
        taken.extend(file.inputs.iter().map(key));
        live.push(file);
    }
    live.sort_by(|a, b| a.path.cmp(&b.path));
    superseded.sort_by(|a, b| a.path.cmp(&b.path));
    (live, superseded)
}

async fn footer(store: &Store, object: &ObjectMeta) -> Result<ParquetMetaData, String> {
    let objects = store.objects();
    let mut wanted = FOOTER;
    loop {
        let from = object.size.saturating_sub(wanted);
        let end = objects.get_range(&object.location, from..object.size).await;
        let end = end.map_err(|error| error.to_string())?;
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(&end, object.size) {
            Ok(()) => return reader.finish().map_err(|error| error.to_string()),
            Err(ParquetError::NeedMoreData(more)) if more as u64 > wanted && from > 0 => {
                wanted = more as u64;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Checks the schema. Returns the inputs of a compacted file, `None` for a host-written one, or the
/// reason to skip it.
fn check(footer: &ParquetMetaData, expected: &Schema) -> Result<Option<Vec<String>>, String> {
    let metadata = footer.file_metadata();
    let value = |key: &str| {
        let all = metadata.key_value_metadata().into_iter().flatten();
        all.filter(|pair| pair.key == key)
            .find_map(|pair| pair.value.as_deref())
    };
    match value("rprof.schema") {
        Some(SCHEMA_VERSION) => {}
        Some(version) => {
            let version: String = version
                .chars()
                .filter(|c| !c.is_control())
                .take(20)
                .collect();
            return Err(format!(
                "its schema has version {version}, this program reads {SCHEMA_VERSION}"
            ));
        }
        None => {
            return Err(
                "it does not name itself as one of rprof's: metadata rprof.schema".to_owned(),
            );
        }
    }
    let schema = parquet_to_arrow_schema(metadata.schema_descr(), None)
        .map_err(|error| error.to_string())?;
    for column in expected.fields() {
        match schema.field_with_name(column.name()) {
            Ok(found) if found.data_type().equals_datatype(column.data_type()) => {}
            Ok(found) => {
                return Err(format!(
                    "its column {} is {}, not {}",
                    column.name(),
                    found.data_type(),
                    column.data_type()
                ));
            }
            Err(_) => return Err(format!("it has no column {}", column.name())),
        }
    }
    Ok(value(INPUTS).map(|inputs| {
        let mut inputs: Vec<String> = inputs.lines().map(str::to_owned).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }))
}

/// Reads a file completely. Returns the reason if that fails.
async fn read_all(store: &Store, file: &File) -> Result<(), String> {
    let found = store.objects().get(&store.location(&file.path)).await;
    let bytes = match found {
        Ok(found) => found.bytes().await,
        Err(error) => Err(error),
    };
    let bytes = bytes.map_err(|error| error.to_string())?;
    let batches = ParquetRecordBatchReaderBuilder::try_new(bytes)
        .and_then(ParquetRecordBatchReaderBuilder::build);
    for batch in batches.map_err(|error| error.to_string())? {
        batch.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, inputs: &[&str]) -> File {
        File {
            path: format!("stacks/date=2023-11-14/hour=22/{name}"),
            hour: 0,
            size: 0,
            modified: 0,
            rows: 0,
            has_more: false,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        }
    }

    fn live(files: Vec<File>) -> Vec<String> {
        let names = choose(files).0;
        names.iter().map(|file| file.name().to_owned()).collect()
    }

    #[test]
    fn what_a_compacted_file_has_is_read_once() {
        let all = [
            file("a", &["a"]),
            file("b", &["b"]),
            file("c", &["c"]),
            file("ab", &["a", "b"]),
            file("abc", &["a", "b", "c"]),
        ];
        assert_eq!(live(all.to_vec()), ["abc"]);
        assert_eq!(live(all[..4].to_vec()), ["ab", "c"]);
        // A host sends a file again after its deletion.
        assert_eq!(live(vec![all[0].clone(), all[4].clone()]), ["abc"]);
    }

    #[test]
    fn two_compactions_at_once_count_once() {
        let all = vec![
            file("a", &["a"]),
            file("b", &["b"]),
            file("c", &["c"]),
            file("ab", &["a", "b"]),
            file("bc", &["b", "c"]),
        ];
        assert_eq!(live(all), ["ab", "c"]);
    }

    #[test]
    fn a_compacted_file_of_one_input_replaces_it() {
        assert_eq!(live(vec![file("a", &["a"]), file("z", &["a"])]), ["z"]);
    }
}
