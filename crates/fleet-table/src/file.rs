//! Encodes rows as a Parquet file.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::FleetTableError;
use crate::rows::TableRow;

/// Maximum number of rows of a row group. Readers load one group at a time, and skip groups by
/// their minimum and maximum values.
const GROUP: usize = 1 << 20;

/// zstd level. Higher levels take longer and save only a few percent.
const LEVEL: i32 = 3;

/// Schema version, stored in a file as `rprof.schema`. Adding columns keeps the number. A new
/// number means that the meaning of columns changed.
pub const SCHEMA_VERSION: &str = "1";

/// Encodes rows, sorted in table order. The encoding is deterministic.
///
/// # Errors
/// The rows cannot be encoded.
///
/// # Examples
/// ```
/// use rprof_fleet_table::{Id, file, rows::StackRow};
///
/// let row = StackRow { stack_id: Id::of_stack([]), location_ids: Vec::new() };
/// let bytes = file::encode(&mut [row])?;
/// assert_eq!(&bytes[..4], b"PAR1");
/// # Ok::<(), rprof_fleet_table::FleetTableError>(())
/// ```
pub fn encode<R: TableRow>(rows: &mut [R]) -> Result<Vec<u8>, FleetTableError> {
    rows.sort_by(R::order);
    let mut writer = SerializedFileWriter::new(
        Vec::new(),
        R::TABLE.schema()?,
        Arc::new(properties::<R>(rows.len())?),
    )?;
    for group in rows.chunks(GROUP) {
        let mut to = writer.next_row_group()?;
        for column in R::columns(group) {
            let Some(mut chunk) = to.next_column()? else {
                break;
            };
            column.write(chunk.untyped())?;
            chunk.close()?;
        }
        to.close()?;
    }
    Ok(writer.into_inner()?)
}

fn properties<R: TableRow>(rows: usize) -> Result<WriterProperties, FleetTableError> {
    let version = KeyValue::new("rprof.schema".to_owned(), SCHEMA_VERSION.to_owned());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_created_by(concat!("rprof ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![version]));
    if let Some(key) = R::TABLE.key() {
        let column = ColumnPath::from(key);
        properties = properties
            // Ids are effectively random, so a dictionary would not be smaller.
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_bloom_filter_enabled(column.clone(), true)
            .set_column_bloom_filter_max_ndv(column, rows.clamp(1, GROUP) as u64);
    }
    Ok(properties.build())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::Id;
    use crate::rows::{
        FrameLine, FrameRow, HostRow, Identity, ImageRow, LocationRow, SampleRow, StackRow,
    };

    fn read<R: TableRow>(rows: &mut [R]) -> Vec<String> {
        let bytes = encode(rows).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().to_string())
            .collect()
    }

    #[test]
    fn lists_come_back_with_what_is_missing_in_them() {
        let id = |byte| Id([byte; 16]);
        let line = |function: Option<&str>, line, inlined| FrameLine {
            function: function.map(str::to_owned),
            file: None,
            line,
            inlined,
        };
        let mut rows = [
            FrameRow {
                location_id: id(3),
                symbols_rank: 0,
                lines: vec![],
            },
            FrameRow {
                location_id: id(1),
                symbols_rank: 2,
                lines: vec![line(Some("inner"), Some(7), true), line(None, None, false)],
            },
            FrameRow {
                location_id: id(2),
                symbols_rank: 1,
                lines: vec![line(Some("f"), None, false)],
            },
        ];
        let read = read(&mut rows);
        let lines: Vec<&str> = read
            .iter()
            .map(|row| row.split_once("lines: ").unwrap().1)
            .collect();
        assert_eq!(
            lines,
            [
                "[{function: \"inner\", file: null, line: 7, inlined: true}, \
                 {function: null, file: null, line: null, inlined: false}]}",
                "[{function: \"f\", file: null, line: null, inlined: false}]}",
                "[]}",
            ]
        );
    }

    #[test]
    fn stacks_keep_their_order() {
        let ids: Vec<Id> = (0..5).map(|byte| Id([byte; 16])).collect();
        let stack = |locations: &[Id]| StackRow {
            stack_id: Id::of_stack(locations.iter().copied()),
            location_ids: locations.to_vec(),
        };
        let mut rows = [stack(&ids), stack(&[]), stack(&ids[1..2])];
        let read = read(&mut rows);
        let all = read.join("\n");
        for row in &rows {
            let list: Vec<String> = row
                .location_ids
                .iter()
                .map(|id| format!("{:?}", id.0))
                .collect();
            assert!(
                all.contains(&format!("location_ids: [{}]", list.join(", "))),
                "{all}"
            );
        }
    }

    #[test]
    fn each_table_can_be_written() {
        let id = Id::of_image("x");
        let sample = SampleRow {
            window_start: 1_700_000_000_000_000,
            window_us: 60_000_000,
            identity: Identity {
                service: "api".into(),
                version: Some("2".into()),
                ..Identity::default()
            },
            host: "web-1".into(),
            comm: "api".into(),
            thread: "worker-#".into(),
            event: "cpu-clock".into(),
            unit: "nanoseconds",
            period: 1e7,
            stack_id: id,
            samples: 3,
            value: 30_000_000,
            scale: 1.0,
        };
        let read_sample = read(&mut [sample]).concat();
        for part in [
            "service: \"api\"",
            "version: \"2\"",
            "pod: null",
            "value: 30000000",
            "2023-11-14 22:13:20",
        ] {
            assert!(read_sample.contains(part), "{part}: {read_sample}");
        }
        let host = HostRow {
            window_start: 0,
            window_us: 60_000_000,
            host: "web-1".into(),
            samples: 3,
            complete: 2,
            lost: 1,
            throttled: 0,
            lost_windows: 0,
            rate_hz: 19.0,
            scale: 1.0,
            agent_version: "0".into(),
        };
        assert!(read(&mut [host]).concat().contains("rate_hz: 19"));
        let image = ImageRow {
            image_id: id,
            build_id: None,
            path: "/bin/x".into(),
            kind: "file",
            symbols: "none",
        };
        assert!(
            read(&mut [image])
                .concat()
                .contains("build_id: null, path: \"/bin/x\"")
        );
        let location = LocationRow {
            location_id: id,
            image_id: id,
            address: Some(7),
        };
        assert!(read(&mut [location]).concat().contains("address: 7"));
    }

    #[test]
    fn no_rows_are_a_file_too() {
        assert_eq!(read::<StackRow>(&mut []), Vec::<String>::new());
    }
}
