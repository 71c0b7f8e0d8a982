//! Table definitions in the SQL dialects of other engines, derived from `rprof-fleet-table`.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use rprof_fleet_table::Table;

use crate::{FleetError, columns};

/// SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// ClickHouse: native tables, loaded from the files.
    Clickhouse,
    /// Spark: views over the files.
    Spark,
    /// DuckDB: views over the files.
    Duckdb,
}

/// Returns SQL statements that define the tables in an engine, with one row for each stack,
/// location and image. `data` is the folder or bucket of the files.
///
/// # Errors
/// None in practice.
pub fn statements(dialect: Dialect, data: &str) -> Result<String, FleetError> {
    let data = literal(dialect, data.trim_end_matches('/'));
    let mut text = String::new();
    for table in Table::ALL {
        text += &match dialect {
            Dialect::Clickhouse => clickhouse(table, &data)?,
            Dialect::Spark => spark(table, &data)?,
            Dialect::Duckdb => duckdb(table, &data),
        };
        text.push('\n');
    }
    Ok(text)
}

/// Escapes text for a quoted string. ClickHouse and Spark support escape sequences, so backslashes
/// are doubled. Spark would read `''` as two adjacent strings, without the quote. DuckDB has no
/// escape sequences (SQL:2016, 5.3).
fn literal(dialect: Dialect, text: &str) -> String {
    match dialect {
        Dialect::Clickhouse | Dialect::Spark => text.replace('\\', r"\\").replace('\'', r"\'"),
        Dialect::Duckdb => text.replace('\'', "''"),
    }
}

/// Returns the key columns of a deduplicated table, and the expression for its other columns.
fn unique(table: Table, any: &str, best: &str) -> Option<(&'static str, String)> {
    let each = |names: &[&str], of: &str| {
        let all = names.iter().map(|name| format!("{of}({name}) AS {name}"));
        all.collect::<Vec<_>>().join(", ")
    };
    Some(match table {
        Table::Stacks => ("stack_id", each(&["location_ids"], any)),
        Table::Locations => ("location_id", each(&["image_id", "address"], any)),
        Table::Frames => (
            "location_id",
            format!("max(symbols_rank) AS symbols_rank, {best}(lines, symbols_rank) AS lines"),
        ),
        Table::Images => (
            "image_id",
            format!(
                "{}, max(symbols) AS symbols",
                each(&["build_id", "path", "kind"], "min")
            ),
        ),
        _ => return None,
    })
}

fn duckdb(table: Table, data: &str) -> String {
    let name = table.name();
    let files = format!("read_parquet('{data}/{name}/**/*.parquet', hive_partitioning = true)");
    match unique(table, "any_value", "arg_max") {
        None => format!("CREATE OR REPLACE VIEW {name} AS SELECT * FROM {files};"),
        Some((key, rest)) => format!(
            "CREATE OR REPLACE VIEW {name} AS SELECT {key}, {rest} FROM {files} GROUP BY {key};"
        ),
    }
}

fn spark(table: Table, data: &str) -> Result<String, FleetError> {
    let name = table.name();
    let schema = columns::written(table)?;
    let columns: Vec<String> = (schema.fields().iter())
        .map(|field| format!("{} {}", field.name(), spark_type(field.data_type())))
        .collect();
    let mut text = format!(
        "CREATE TABLE {name}_files ({}, date STRING, hour STRING) USING parquet PARTITIONED BY (date, hour) LOCATION '{data}/{name}';\n\
         ALTER TABLE {name}_files RECOVER PARTITIONS;\n",
        columns.join(", ")
    );
    text += &match unique(table, "first", "max_by") {
        None => format!("CREATE OR REPLACE VIEW {name} AS SELECT * FROM {name}_files;"),
        Some((key, rest)) => {
            format!(
                "CREATE OR REPLACE VIEW {name} AS SELECT {key}, {rest} FROM {name}_files GROUP BY {key};"
            )
        }
    };
    Ok(text)
}

fn spark_type(of: &DataType) -> String {
    match of {
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::FixedSizeBinary(_) => "BINARY".to_owned(),
        DataType::List(item) => format!("ARRAY<{}>", spark_type(item.data_type())),
        DataType::Struct(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|field| format!("{}: {}", field.name(), spark_type(field.data_type())));
            format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        _ => "STRING".to_owned(),
    }
}

fn clickhouse(table: Table, data: &str) -> Result<String, FleetError> {
    let name = table.name();
    let schema = columns::written(table)?;
    let columns: Vec<String> = (schema.fields().iter())
        .map(|field| format!("    {} {}", quoted(field.name()), clickhouse_type(field)))
        .collect();
    let (engine, order) = match table {
        Table::Samples => (
            "MergeTree PARTITION BY toDate(window_start)",
            "(service, event, stack_id, window_start)",
        ),
        Table::Hosts => (
            "MergeTree PARTITION BY toDate(window_start)",
            "(host, window_start)",
        ),
        // Keeps the row of the highest rank.
        Table::Frames => ("ReplacingMergeTree(symbols_rank)", "location_id"),
        Table::Stacks => ("ReplacingMergeTree", "stack_id"),
        Table::Locations => ("ReplacingMergeTree", "location_id"),
        _ => ("ReplacingMergeTree", "image_id"),
    };
    let source = match data.contains("://") {
        true => format!("s3('{data}/{name}/**/*.parquet')"),
        false => format!("file('{data}/{name}/**/*.parquet')"),
    };
    Ok(format!(
        "CREATE TABLE {name} (\n{}\n) ENGINE = {engine} ORDER BY {order};\nINSERT INTO {name} SELECT * FROM {source};",
        columns.join(",\n")
    ))
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

fn clickhouse_type(field: &Field) -> String {
    let plain = match field.data_type() {
        DataType::Int32 => "Int32".to_owned(),
        DataType::Int64 => "Int64".to_owned(),
        DataType::Float64 => "Float64".to_owned(),
        DataType::Boolean => "Bool".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => "DateTime64(6, 'UTC')".to_owned(),
        DataType::FixedSizeBinary(length) => format!("FixedString({length})"),
        DataType::List(item) => return format!("Array({})", clickhouse_type(item)),
        DataType::Struct(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|field| format!("{} {}", field.name(), clickhouse_type(field)));
            return format!("Tuple({})", fields.collect::<Vec<_>>().join(", "));
        }
        _ => "String".to_owned(),
    };
    match field.is_nullable() {
        true => format!("Nullable({plain})"),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_do_not_end_their_string() {
        let folder = r"/a\'; DROP TABLE samples; --";
        for (dialect, quoted) in [
            (
                Dialect::Clickhouse,
                r"'/a\\\'; DROP TABLE samples; --/samples/",
            ),
            (Dialect::Spark, r"'/a\\\'; DROP TABLE samples; --/samples'"),
            (Dialect::Duckdb, r"'/a\''; DROP TABLE samples; --/samples/"),
        ] {
            let text = statements(dialect, folder).unwrap();
            assert!(text.contains(quoted), "{text}");
        }
    }
}
