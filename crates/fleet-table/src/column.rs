//! [`Column`]: column values, with the levels that encode missing values and lists.

use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};

use crate::Id;

/// Values of one column for some rows: see [`TableRow::columns`](crate::rows::TableRow::columns).
#[derive(Debug)]
pub struct Column {
    values: Values,
    /// Parquet definition level of each value. `None` for required columns.
    definition: Option<Vec<i16>>,
    /// Parquet repetition level of each value. `None` outside of lists.
    repetition: Option<Vec<i16>>,
}

#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
    Id(Vec<FixedLenByteArray>),
}

impl Column {
    fn required(values: Values) -> Column {
        Column {
            values,
            definition: None,
            repetition: None,
        }
    }

    pub(crate) fn int32(values: impl Iterator<Item = i32>) -> Column {
        Column::required(Values::Int32(values.collect()))
    }

    pub(crate) fn int64(values: impl Iterator<Item = i64>) -> Column {
        Column::required(Values::Int64(values.collect()))
    }

    pub(crate) fn double(values: impl Iterator<Item = f64>) -> Column {
        Column::required(Values::Double(values.collect()))
    }

    pub(crate) fn text<'r>(values: impl Iterator<Item = &'r str>) -> Column {
        Column::required(Values::Text(values.map(ByteArray::from).collect()))
    }

    pub(crate) fn id(values: impl Iterator<Item = Id>) -> Column {
        Column::required(Values::Id(values.map(fixed).collect()))
    }

    pub(crate) fn optional_int64(values: impl Iterator<Item = Option<i64>>) -> Column {
        let (definition, values) = optional(values);
        Column {
            values: Values::Int64(values),
            definition: Some(definition),
            repetition: None,
        }
    }

    pub(crate) fn optional_text<'r>(values: impl Iterator<Item = Option<&'r str>>) -> Column {
        let (definition, values) = optional(values.map(|value| value.map(ByteArray::from)));
        Column {
            values: Values::Text(values),
            definition: Some(definition),
            repetition: None,
        }
    }

    pub(crate) fn ids<'r>(lists: impl Iterator<Item = &'r [Id]>) -> Column {
        let levels = Levels::of(lists.map(|list| list.iter().map(|id| Some(fixed(*id)))), 1);
        levels.column(Values::Id)
    }

    pub(crate) fn bools<L: Iterator<Item = bool>>(lists: impl Iterator<Item = L>) -> Column {
        let levels = Levels::of(lists.map(|list| list.map(Some)), 1);
        levels.column(Values::Bool)
    }

    pub(crate) fn optional_texts<'r, L>(lists: impl Iterator<Item = L>) -> Column
    where
        L: Iterator<Item = Option<&'r str>>,
    {
        let lists = lists.map(|list| list.map(|value| value.map(ByteArray::from)));
        Levels::of(lists, 2).column(Values::Text)
    }

    pub(crate) fn optional_int32s<L>(lists: impl Iterator<Item = L>) -> Column
    where
        L: Iterator<Item = Option<i32>>,
    {
        Levels::of(lists, 2).column(Values::Int32)
    }

    pub(crate) fn write(&self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let (definition, repetition) = (self.definition.as_deref(), self.repetition.as_deref());
        match (writer, &self.values) {
            (ColumnWriter::BoolColumnWriter(to), Values::Bool(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            (ColumnWriter::Int32ColumnWriter(to), Values::Int32(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            (ColumnWriter::Int64ColumnWriter(to), Values::Int64(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            (ColumnWriter::DoubleColumnWriter(to), Values::Double(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(to), Values::Text(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            (ColumnWriter::FixedLenByteArrayColumnWriter(to), Values::Id(values)) => {
                to.write_batch(values, definition, repetition)?;
            }
            _ => return Err(ParquetError::General("a column of another type".to_owned())),
        }
        Ok(())
    }
}

fn fixed(id: Id) -> FixedLenByteArray {
    FixedLenByteArray::from(id.0.to_vec())
}

fn optional<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<i16>, Vec<T>) {
    let (mut definition, mut present) = (Vec::new(), Vec::new());
    for value in values {
        definition.push(i16::from(value.is_some()));
        present.extend(value);
    }
    (definition, present)
}

/// Values of consecutive lists, with their levels.
struct Levels<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T> Levels<T> {
    /// Flattens lists. `present` is the definition level of a present value.
    fn of<L>(lists: impl Iterator<Item = L>, present: i16) -> Levels<T>
    where
        L: Iterator<Item = Option<T>>,
    {
        let mut levels = Levels {
            values: Vec::new(),
            definition: Vec::new(),
            repetition: Vec::new(),
        };
        for list in lists {
            let before = levels.definition.len();
            for value in list {
                let is_first = levels.definition.len() == before;
                levels.repetition.push(i16::from(!is_first));
                levels.definition.push(match value.is_some() {
                    true => present,
                    false => present - 1,
                });
                levels.values.extend(value);
            }
            if levels.definition.len() == before {
                levels.repetition.push(0);
                levels.definition.push(0);
            }
        }
        levels
    }

    fn column(self, values: impl Fn(Vec<T>) -> Values) -> Column {
        Column {
            values: values(self.values),
            definition: Some(self.definition),
            repetition: Some(self.repetition),
        }
    }
}
