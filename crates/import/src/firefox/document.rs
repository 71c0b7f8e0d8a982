//! The document as it stands in the file. Its lists have limits, since a few bytes of text, a few bits of gzip, may stand for
//! a table of any length: an empty thread is two characters, and takes half a KiB.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Most threads of a profile.
const MOST_THREADS: usize = 1 << 18;

/// Most libraries of a profile.
pub(super) const MOST_LIBRARIES: usize = 1 << 20;

/// Most strings of a table.
const MOST_STRINGS: usize = 1 << 25;

/// Most rows of a table.
const MOST_ROWS: usize = 1 << 27;

/// List with a limit, beyond which the document is refused.
#[derive(Debug)]
pub(super) struct Limited<T, const MOST: usize>(pub(super) Vec<T>);

impl<T, const MOST: usize> Limited<T, MOST> {
    /// List without entries.
    pub(super) const EMPTY: Limited<T, MOST> = Limited(Vec::new());
}

impl<T, const MOST: usize> Default for Limited<T, MOST> {
    fn default() -> Self {
        Limited::EMPTY
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Limited<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct OfList<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for OfList<T, MOST> {
            type Value = Limited<T, MOST>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(value) = list.next_element()? {
                    if all.len() == MOST {
                        return Err(A::Error::custom(format!(
                            "a list has more than {MOST} entries"
                        )));
                    }
                    all.push(value);
                }
                Ok(Limited(all))
            }
        }

        input.deserialize_seq(OfList(PhantomData))
    }
}

/// Number of a table's row, `null` or -1 where there is none. One that no table can have is none either.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowNumber(i32);

impl RowNumber {
    /// Returns the number, which may be negative.
    pub(super) fn get(self) -> i64 {
        i64::from(self.0)
    }
}

impl<'de> Deserialize<'de> for RowNumber {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let number = Option::<i64>::deserialize(input)?.unwrap_or(-1);
        // Far beyond all tables, so that it is found to name nothing.
        Ok(RowNumber(i32::try_from(number).unwrap_or(i32::MAX)))
    }
}

/// Number of a process or thread, which may be text: `"7"`, or `"7.1"` for one that shares it. `None` for what is no number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number(pub(super) Option<i32>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct OfNumber;

        impl<'de> Visitor<'de> for OfNumber {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number.try_into().ok()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number.try_into().ok()))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().ok()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Number, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }
        }

        input.deserialize_any(OfNumber)
    }
}

/// Numbers of rows.
pub(super) type Column = Limited<RowNumber, MOST_ROWS>;

/// Addresses, `null` or -1 where there is none.
pub(super) type Addresses = Limited<Option<i64>, MOST_STRINGS>;

/// Times and weights.
pub(super) type Measures = Limited<f64, MOST_ROWS>;

/// Names.
pub(super) type Strings = Limited<String, MOST_STRINGS>;

/// Returns the entry of a list that a number names, if there is one.
pub(super) fn at<T, const MOST: usize>(list: &Limited<T, MOST>, number: Option<i64>) -> Option<&T> {
    list.0.get(usize::try_from(number?).ok()?)
}

/// Returns the number that stands at a row of a column, if there is one; it may be negative.
pub(super) fn of(column: &Column, number: Option<i64>) -> Option<i64> {
    at(column, number).map(|number| number.get())
}

#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) meta: Meta,
    #[serde(default)]
    pub(super) libs: Limited<Library, MOST_LIBRARIES>,
    #[serde(default)]
    pub(super) shared: Tables,
    #[serde(default)]
    pub(super) threads: Limited<Thread, MOST_THREADS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Meta {
    pub(super) product: String,
    #[serde(rename = "startTimeAsClockMonotonicNanosecondsSinceBoot")]
    pub(super) start: Option<f64>,
    pub(super) interval: f64,
    #[serde(rename = "importedFrom")]
    pub(super) imported_from: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Library {
    pub(super) path: String,
    pub(super) name: String,
    #[serde(rename = "codeId")]
    pub(super) code_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tables {
    pub(super) string_array: Option<Strings>,
    pub(super) string_table: Option<Strings>,
    pub(super) stack_table: Option<StackTable>,
    pub(super) frame_table: Option<FrameTable>,
    pub(super) func_table: Option<FuncTable>,
    pub(super) resource_table: Option<ResourceTable>,
    pub(super) sources: Option<SourceTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StackTable {
    pub(super) frame: Column,
    pub(super) prefix: Column,
    pub(super) prefix_offset: Option<Column>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FrameTable {
    pub(super) address: Addresses,
    pub(super) inline_depth: Column,
    pub(super) func: Column,
    pub(super) line: Column,
    pub(super) column: Column,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FuncTable {
    pub(super) name: Column,
    pub(super) resource: Column,
    /// Source, from version 58 on.
    pub(super) source: Column,
    /// String with the file's name, before.
    pub(super) file_name: Column,
    pub(super) line_number: Column,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceTable {
    pub(super) lib: Column,
    pub(super) name: Column,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SourceTable {
    pub(super) filename: Column,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) process_name: Option<String>,
    #[serde(default)]
    pub(super) pid: Number,
    #[serde(default)]
    pub(super) tid: Number,
    #[serde(default)]
    pub(super) samples: Samples,
    // Not flattened, which would hold all that is not known here.
    pub(super) string_array: Option<Strings>,
    pub(super) string_table: Option<Strings>,
    pub(super) stack_table: Option<StackTable>,
    pub(super) frame_table: Option<FrameTable>,
    pub(super) func_table: Option<FuncTable>,
    pub(super) resource_table: Option<ResourceTable>,
    pub(super) sources: Option<SourceTable>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Samples {
    pub(super) stack: Column,
    pub(super) time: Option<Measures>,
    pub(super) time_deltas: Option<Measures>,
    pub(super) weight: Option<Measures>,
    pub(super) weight_type: Option<String>,
}
