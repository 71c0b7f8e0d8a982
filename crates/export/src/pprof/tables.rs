//! Mappings, locations and functions of pprof's message.

use std::io;

use rprof_profile::{ObjectId, Profile};

use super::message::Message;
use crate::frame_text::unnamed;
use crate::locations::{FunctionRow, LocationTables};
use crate::names::{CleanName, CleanNames};
use crate::protobuf::{flag, part, signed, unsigned};

pub(super) fn write(
    profile: &Profile,
    tables: &LocationTables,
    message: &mut Message<'_>,
) -> io::Result<()> {
    for ((object, limit), id) in tables.mappings.iter().zip(1..) {
        mapping(profile, id, *object, *limit, message)?;
    }
    for (location, id) in tables.locations.iter().zip(1..) {
        let mut bytes = Vec::new();
        unsigned(1, id, &mut bytes);
        unsigned(2, location.mapping, &mut bytes);
        unsigned(3, location.address, &mut bytes);
        for row in &location.lines {
            let mut line = Vec::new();
            unsigned(1, row.function, &mut line);
            signed(2, i64::from(row.line), &mut line);
            signed(3, i64::from(row.column), &mut line);
            part(4, &line, &mut bytes);
        }
        message.field(4, &bytes)?;
    }
    for (row, id) in tables.functions.iter().zip(1..) {
        function(profile, id, row, message)?;
    }
    Ok(())
}

fn mapping(
    profile: &Profile,
    id: u64,
    object: ObjectId,
    limit: u64,
    message: &mut Message<'_>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    unsigned(1, id, &mut bytes);
    unsigned(3, limit, &mut bytes);
    let name = message
        .strings
        .index(&CleanNames::new(profile).object(object));
    signed(5, name, &mut bytes);
    if let Some(build_id) = &profile.object(object).build_id {
        signed(6, message.strings.index(&build_id.to_string()), &mut bytes);
    }
    for said in 7..=10 {
        flag(said, true, &mut bytes);
    }
    message.field(3, &bytes)
}

fn function(
    profile: &Profile,
    id: u64,
    row: &FunctionRow,
    message: &mut Message<'_>,
) -> io::Result<()> {
    let names = CleanNames::new(profile);
    let name = match names.own_function(row.id) {
        Some(name) => name.into_owned(),
        None => unnamed(profile, profile.function(row.id).object),
    };
    let mut bytes = Vec::new();
    unsigned(1, id, &mut bytes);
    let name = message.strings.index(&name);
    signed(2, name, &mut bytes);
    // Omits the mangled name: readers would demangle it.
    if let Some(file) = row.file {
        let path = CleanName::new(&profile.files[file.0 as usize]);
        signed(4, message.strings.index(&path), &mut bytes);
    }
    // Go's compiler rejects a profile without start lines.
    signed(5, i64::from(row.start_line), &mut bytes);
    message.field(5, &bytes)
}
