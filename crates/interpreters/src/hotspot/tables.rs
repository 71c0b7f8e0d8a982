//! [`Tables`]: the fields and sizes of HotSpot's types, which `libjvm.so` exports for debuggers
//! (`src/hotspot/share/runtime/vmStructs.hpp` of the JDK).

use rustc_hash::FxHashMap;

use crate::ImageSymbols;
use crate::snapshot::{Fault, Result, Snapshot};

/// Variables that describe the tables. All are words.
const NAMES: [&str; 10] = [
    "gHotSpotVMStructs",
    "gHotSpotVMStructEntryArrayStride",
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
    "gHotSpotVMTypes",
    "gHotSpotVMTypeEntryArrayStride",
    "gHotSpotVMTypeEntryTypeNameOffset",
    "gHotSpotVMTypeEntrySizeOffset",
];

/// Maximum number of entries of a table. JDK 17 has 788 fields.
const MAX_ENTRIES: u64 = 4096;

/// Number of unread entries requested at once, since the length of a table is unknown.
const LOOKAHEAD: usize = 256;

/// Maximum bytes of an entry. JDK 17 has 48.
const MAX_STRIDE: u64 = 256;

/// Maximum length of a name that a reader needs, with its end.
const MAX_NAME: usize = 40;

pub(super) fn is_needed(name: &[u8]) -> bool {
    NAMES.iter().any(|needed| needed.as_bytes() == name)
}

/// Addresses (SVMAs) of the variables in an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exports([u64; NAMES.len()]);

/// Fields and sizes of the requested types.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// Offset in the object, or the address of a static field.
    fields: FxHashMap<(String, String), u64>,
    sizes: FxHashMap<String, u64>,
}

impl Exports {
    pub(super) fn find(symbols: &ImageSymbols) -> Option<Self> {
        let mut found = [0; NAMES.len()];
        for (svma, name) in found.iter_mut().zip(NAMES) {
            *svma = symbols.get(name)?.svma;
        }
        Some(Self(found))
    }

    /// Reads the fields and sizes of types that `is_wanted` accepts.
    pub(super) fn read(
        &self,
        bias: u64,
        memory: &mut Snapshot,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Tables> {
        let avmas = self.0.map(|svma| svma.wrapping_add(bias));
        let words = avmas.map(|avma| memory.u64(avma));
        let mut values = [0; NAMES.len()];
        for (value, word) in values.iter_mut().zip(words) {
            *value = word?;
        }
        let [
            fields,
            field_stride,
            type_name,
            field_name,
            offset,
            address,
            types,
            type_stride,
            name,
            size,
        ] = values;
        let fields = entries(memory, [fields, field_stride, type_name])?;
        let types = entries(memory, [types, type_stride, name])?;
        let mut tables = Tables::default();
        let mut is_unread = false;
        for entry in fields {
            let mut read = |memory: &mut Snapshot| {
                let class = text(memory, entry.wrapping_add(type_name))?;
                if !is_wanted(&class) {
                    return Ok(());
                }
                let field = text(memory, entry.wrapping_add(field_name))?;
                let place = match memory.u64(entry.wrapping_add(address))? {
                    0 => memory.u64(entry.wrapping_add(offset))?,
                    address => address,
                };
                tables.fields.insert((class, field), place);
                Ok(())
            };
            match read(memory) {
                Err(Fault::Unread) => is_unread = true,
                other => other?,
            }
        }
        for entry in types {
            let mut read = |memory: &mut Snapshot| {
                let class = text(memory, entry.wrapping_add(name))?;
                if is_wanted(&class) {
                    let size = memory.u64(entry.wrapping_add(size))?;
                    tables.sizes.insert(class, size);
                }
                Ok(())
            };
            match read(memory) {
                Err(Fault::Unread) => is_unread = true,
                other => other?,
            }
        }
        match is_unread {
            true => Err(Fault::Unread),
            false => Ok(tables),
        }
    }
}

impl Tables {
    /// Returns the offset of a field, or the address of a static field.
    pub(super) fn field(&self, class: &str, field: &str) -> Option<u64> {
        let key = (class.to_owned(), field.to_owned());
        self.fields.get(&key).copied()
    }

    /// Returns the bytes of an object of a type.
    pub(super) fn size(&self, class: &str) -> Option<u64> {
        self.sizes.get(class).copied()
    }
}

/// Symbols of an image whose variables have small addresses.
#[cfg(test)]
pub(super) fn all_symbols() -> ImageSymbols {
    let symbol = |(name, number): (&'static str, u64)| {
        let svma = 8 * number;
        (name, crate::ImageSymbol { svma, size: 8 })
    };
    NAMES.into_iter().zip(1..).map(symbol).collect()
}

#[cfg(test)]
impl FromIterator<(&'static str, &'static str, u64)> for Tables {
    /// Tables of fields. A field without a name is the size of its type.
    fn from_iter<I: IntoIterator<Item = (&'static str, &'static str, u64)>>(fields: I) -> Self {
        let mut tables = Self::default();
        for (class, field, value) in fields {
            match field {
                "" => tables.sizes.insert(class.to_owned(), value),
                _ => (tables.fields).insert((class.to_owned(), field.to_owned()), value),
            };
        }
        tables
    }
}

/// Returns the addresses of a table's entries. An entry without a name ends it.
fn entries(memory: &mut Snapshot, [start, stride, name]: [u64; 3]) -> Result<Vec<u64>> {
    if !(16..=MAX_STRIDE).contains(&stride) || name > stride - 8 {
        return Err(Fault::Invalid);
    }
    let mut found = Vec::new();
    let mut unread = 0;
    for number in 0..MAX_ENTRIES {
        let entry = start.wrapping_add(number * stride);
        match memory.u64(entry.wrapping_add(name)) {
            Ok(0) if unread == 0 => return Ok(found),
            Ok(_) => found.push(entry),
            Err(Fault::Unread) if unread < LOOKAHEAD => unread += 1,
            // Memory behind the table may be unreadable.
            Err(Fault::Invalid) if unread > 0 => return Err(Fault::Unread),
            Err(fault) => return Err(fault),
        }
    }
    Err(Fault::Invalid)
}

/// Returns the name that a word points to; empty if it is longer than any needed one.
fn text(memory: &mut Snapshot, pointer: u64) -> Result<String> {
    let avma = memory.u64(pointer)?;
    let bytes: [u8; MAX_NAME] = memory.bytes(avma)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = end.and_then(|end| bytes.get(..end));
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    Ok(name.unwrap_or_default().to_owned())
}
