//! Arrow schemas of the tables, derived from `rprof-fleet-table`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::schema::parser::parse_message_type;
use datafusion::parquet::schema::types::SchemaDescriptor;
use rprof_fleet_table::Table;

use crate::FleetError;

/// Returns the columns of a table as written in files.
///
/// # Errors
/// None in practice.
pub fn written(table: Table) -> Result<SchemaRef, FleetError> {
    let parsed = Arc::new(parse_message_type(table.message_type())?);
    let schema = parquet_to_arrow_schema(&SchemaDescriptor::new(parsed), None)?;
    Ok(Arc::new(schema))
}

/// Returns the columns of a table for readers. All are nullable, because other programs may have
/// written the files.
///
/// # Errors
/// None in practice.
pub fn read(table: Table) -> Result<SchemaRef, FleetError> {
    let fields: Vec<Field> = (written(table)?.fields().iter())
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}
