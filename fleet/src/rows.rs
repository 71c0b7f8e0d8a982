//! Converts columns of query results to the types of this program.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int64Array, ListArray, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use rprof_fleet_table::Id;

use crate::FleetError;

/// Returns a column by its name.
fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef, FleetError> {
    batch.column_by_name(name).ok_or_else(|| unexpected(name))
}

fn unexpected(name: &str) -> FleetError {
    DataFusionError::Execution(format!("the engine's answer has no such column {name}")).into()
}

/// Returns a column as text, in any Arrow encoding.
pub(crate) fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray, FleetError> {
    let plain = cast(column(batch, name)?, &DataType::Utf8).map_err(DataFusionError::from)?;
    Ok(plain.as_string::<i32>().clone())
}

/// Returns a column as integers.
pub(crate) fn integers(batch: &RecordBatch, name: &str) -> Result<Int64Array, FleetError> {
    let plain = cast(column(batch, name)?, &DataType::Int64).map_err(DataFusionError::from)?;
    Ok(plain.as_primitive::<Int64Type>().clone())
}

/// Returns a column as floating-point numbers.
pub(crate) fn doubles(batch: &RecordBatch, name: &str) -> Result<Vec<f64>, FleetError> {
    let plain = cast(column(batch, name)?, &DataType::Float64).map_err(DataFusionError::from)?;
    Ok(plain.as_primitive::<Float64Type>().values().to_vec())
}

/// Returns a column as ids.
pub(crate) fn ids(batch: &RecordBatch, name: &str) -> Result<Vec<Id>, FleetError> {
    let column = column(batch, name)?;
    let binary = column
        .as_fixed_size_binary_opt()
        .ok_or_else(|| unexpected(name))?;
    all_ids(binary).ok_or_else(|| unexpected(name))
}

/// Returns a column of lists.
pub(crate) fn lists<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ListArray, FleetError> {
    column(batch, name)?
        .as_list_opt::<i32>()
        .ok_or_else(|| unexpected(name))
}

/// Returns the values as ids, if they have the length of ids.
pub(crate) fn all_ids(binary: &FixedSizeBinaryArray) -> Option<Vec<Id>> {
    let ids = (0..binary.len()).map(|row| binary.value(row).try_into().map(Id).ok());
    ids.collect()
}

/// Returns the value of a row, or `None` if it is null.
pub(crate) fn text(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}
