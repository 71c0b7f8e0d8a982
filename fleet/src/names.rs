//! [`Names`]: stacks, locations, frames and images by their ids.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use rprof_fleet_table::Id;
use rprof_fleet_table::rows::FrameLine;

use crate::FleetError;
use crate::engine::Fleet;
use crate::rows::{all_ids, ids, integers, lists, text, texts};

/// Best known names of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// 0 no name, 1 a symbol table name, 2 source lines.
    pub rank: i64,
    /// Calls, innermost first.
    pub calls: Vec<FrameLine>,
}

impl Frames {
    /// Returns whether these names take precedence over others of the same location.
    fn is_before(&self, other: &Frames) -> bool {
        fn key(frames: &Frames) -> impl Ord + '_ {
            let calls = frames.calls.iter();
            let calls = calls.map(|call| (&call.function, &call.file, call.line, call.inlined));
            (std::cmp::Reverse(frames.rank), calls.collect::<Vec<_>>())
        }
        key(self) <= key(other)
    }
}

/// Image and address of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Image that contains it.
    pub image: Id,
    /// Offset into the image's file.
    pub address: Option<i64>,
}

/// Image of locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Build-id in hexadecimal digits, if it has one.
    pub build_id: Option<String>,
    /// Path. Of several, the alphabetically first.
    pub path: String,
    /// `file`, `kernel`, `jit` or `waiting`.
    pub kind: String,
    /// `edge`, `wanted` or `none`.
    pub symbols: String,
}

/// Stacks, locations, frames and images by their ids.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Locations of stacks, leaf first.
    pub stacks: HashMap<Id, Vec<Id>>,
    /// Image and address of each location.
    pub locations: HashMap<Id, Location>,
    /// Names of each location.
    pub frames: HashMap<Id, Frames>,
    /// Images.
    pub images: HashMap<Id, Image>,
}

impl Names {
    /// Queries the stacks of some samples, given as an SQL condition, and all data that they refer
    /// to.
    ///
    /// # Errors
    /// The engine fails.
    pub async fn of(fleet: &Fleet, samples: &str) -> Result<Names, FleetError> {
        let mut names = Names::default();
        let query = format!(
            "SELECT stack_id, first_value(location_ids) AS location_ids FROM stacks_files \
             WHERE stack_id IN (SELECT DISTINCT stack_id FROM samples_files WHERE {samples}) GROUP BY stack_id"
        );
        for batch in fleet.ask(&query).await? {
            names.add_stacks(&batch)?;
        }
        for batch in fleet.ask("SELECT * FROM frames").await? {
            names.add_frames(&batch)?;
        }
        for batch in fleet.ask("SELECT * FROM locations").await? {
            names.add_locations(&batch)?;
        }
        for batch in fleet.ask("SELECT * FROM images").await? {
            names.add_images(&batch)?;
        }
        Ok(names)
    }

    pub(crate) fn add_stacks(&mut self, batch: &RecordBatch) -> Result<(), FleetError> {
        let stacks = ids(batch, "stack_id")?;
        let locations = lists(batch, "location_ids")?;
        for (row, stack) in stacks.into_iter().enumerate() {
            let value = locations.value(row);
            let found = value.as_fixed_size_binary_opt().and_then(all_ids);
            self.stacks
                .entry(stack)
                .or_insert_with(|| found.unwrap_or_default());
        }
        Ok(())
    }

    pub(crate) fn add_frames(&mut self, batch: &RecordBatch) -> Result<(), FleetError> {
        let locations = ids(batch, "location_id")?;
        let ranks = integers(batch, "symbols_rank")?;
        let lines = lists(batch, "lines")?;
        for (row, location) in locations.into_iter().enumerate() {
            let frames = Frames {
                rank: ranks.value(row),
                calls: calls(&lines.value(row)),
            };
            // Hosts with different files may have different names of one rank. Choosing the first
            // in order makes the result deterministic.
            match self.frames.get_mut(&location) {
                Some(known) if known.is_before(&frames) => {}
                Some(known) => *known = frames,
                None => drop(self.frames.insert(location, frames)),
            }
        }
        Ok(())
    }

    pub(crate) fn add_locations(&mut self, batch: &RecordBatch) -> Result<(), FleetError> {
        let (locations, images) = (ids(batch, "location_id")?, ids(batch, "image_id")?);
        let addresses = integers(batch, "address")?;
        for (row, (location, image)) in locations.into_iter().zip(images).enumerate() {
            let address = addresses.is_valid(row).then(|| addresses.value(row));
            let place = Location { image, address };
            self.locations.entry(location).or_insert(place);
        }
        Ok(())
    }

    pub(crate) fn add_images(&mut self, batch: &RecordBatch) -> Result<(), FleetError> {
        let images = ids(batch, "image_id")?;
        let [build_ids, paths, kinds, symbols] =
            ["build_id", "path", "kind", "symbols"].map(|name| texts(batch, name));
        let (build_ids, paths, kinds, symbols) = (build_ids?, paths?, kinds?, symbols?);
        for (row, id) in images.into_iter().enumerate() {
            let of = |column| text(column, row).unwrap_or_default().to_owned();
            let image = Image {
                build_id: text(&build_ids, row).map(str::to_owned),
                path: of(&paths),
                kind: of(&kinds),
                symbols: of(&symbols),
            };
            self.images.entry(id).or_insert(image);
        }
        Ok(())
    }
}

/// Decodes the calls of a row from a list of structs.
fn calls(lines: &dyn Array) -> Vec<FrameLine> {
    let Some(lines) = lines.as_struct_opt() else {
        return Vec::new();
    };
    let texts = |name: &str| {
        let column = lines.column_by_name(name)?;
        let plain =
            datafusion::arrow::compute::cast(column, &datafusion::arrow::datatypes::DataType::Utf8)
                .ok()?;
        Some(plain.as_string::<i32>().clone())
    };
    let (functions, files) = (texts("function"), texts("file"));
    let numbers = lines
        .column_by_name("line")
        .and_then(|column| column.as_primitive_opt::<Int32Type>());
    let inlined = lines
        .column_by_name("inlined")
        .and_then(|column| column.as_boolean_opt());
    (0..lines.len())
        .map(|row| {
            let of = |column: &Option<_>| {
                column
                    .as_ref()
                    .and_then(|column| text(column, row))
                    .map(str::to_owned)
            };
            FrameLine {
                function: of(&functions),
                file: of(&files),
                line: numbers
                    .filter(|column| column.is_valid(row))
                    .map(|column| column.value(row)),
                inlined: inlined.is_some_and(|column| column.is_valid(row) && column.value(row)),
            }
        })
        .collect()
}
