//! What a function is called: its linkage name, or else its plain one.

use super::home::{Home, Open, Which};
use super::sections::Slice;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

/// Longest name that is read.
const MAX_NAME: usize = 64 << 10;

/// An inlined call refers to its function, which may refer to a declaration (DWARF 5,
/// sections 2.13.2 and 3.3.8.1); files that refer in circles get no further than this.
const MAX_STEPS: usize = 16;

/// Names that were looked up, by where their entry is.
#[derive(Default)]
pub(super) struct Names<'a>(FxHashMap<(Which, DebugInfoOffset), Option<&'a [u8]>>);

impl<'a> Names<'a> {
    /// The name of the entry that `to`, an attribute of an entry of `home`, refers to.
    pub(super) fn referred(
        &mut self,
        open: &mut Open<'a>,
        home: &Home<'a>,
        to: &AttributeValue<Slice<'a>>,
    ) -> Option<&'a [u8]> {
        let (home, entry) = open.follow(home, to)?;
        self.of(open, &home, entry)
    }

    /// The name of a function's entry.
    pub(super) fn of(
        &mut self,
        open: &mut Open<'a>,
        home: &Home<'a>,
        entry: UnitOffset,
    ) -> Option<&'a [u8]> {
        let key = match entry.to_debug_info_offset(&home.unit.header) {
            Some(offset) => (home.which, offset),
            None => return read(open, home, entry),
        };
        if let Some(known) = self.0.get(&key) {
            return *known;
        }
        let name = read(open, home, entry);
        self.0.insert(key, name);
        name
    }
}

/// Reads the name. A linkage name further on is better than a plain one here.
fn read<'a>(open: &mut Open<'a>, home: &Home<'a>, entry: UnitOffset) -> Option<&'a [u8]> {
    let (mut home, mut entry) = (home.clone(), entry);
    let mut plain = None;
    for _ in 0..MAX_STEPS {
        let mut next = None;
        let mut linkage = None;
        let mut entries = home.unit.entries_raw(Some(entry)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    linkage = Some(attribute.value());
                }
                gimli::DW_AT_name if plain.is_none() => {
                    plain = text(&home, attribute.value());
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = Some(attribute.value());
                }
                _ => {}
            }
        }
        let linkage = linkage.and_then(|value| text(&home, value));
        if linkage.is_some() {
            return linkage;
        }
        let Some(found) = next.and_then(|next| open.follow(&home, &next)) else {
            break;
        };
        (home, entry) = found;
    }
    plain
}

fn text<'a>(home: &Home<'a>, value: AttributeValue<Slice<'a>>) -> Option<&'a [u8]> {
    let bytes = home.dwarf.attr_string(&home.unit, value).ok()?.slice();
    (!bytes.is_empty()).then_some(&bytes[..bytes.len().min(MAX_NAME)])
}
