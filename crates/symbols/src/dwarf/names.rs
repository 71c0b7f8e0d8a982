//! Names of functions, the linkage name or else the plain name, and the lines where they begin.

use super::debug_info::FunctionEntry;
use super::sections::Slice;
use super::unit_refs::{DwarfFileKind, OpenUnits, UnitRef};
use super::work_budget::WorkBudget;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

/// Longest name that is read, in bytes.
const MAX_NAME: usize = 64 << 10;

/// Most references that are followed to a name: an inlined call refers to its function, which may
/// refer to a declaration (DWARF 5, sections 2.13.2 and 3.3.8.1). Bounds reference cycles.
const MAX_STEPS: usize = 16;

/// Name of a function, and the line where it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedFunction<'a> {
    pub(super) name: Option<&'a [u8]>,
    /// Line of its declaration (`DW_AT_decl_line`), which is where it begins; 0 where that is unknown.
    pub(super) start_line: u32,
    /// Entry that the name is of; `None` for a linkage name, which is of one function only.
    pub(super) entry: Option<FunctionEntry>,
}

/// Functions that were looked up, by position of their entry.
#[derive(Default)]
pub(super) struct FunctionNames<'a>(FxHashMap<(DwarfFileKind, DebugInfoOffset), NamedFunction<'a>>);

impl<'a> FunctionNames<'a> {
    /// Returns the function whose entry `to`, an attribute of an entry of `unit_ref`, refers to.
    pub(super) fn referred(
        &mut self,
        open: &mut OpenUnits<'a>,
        unit_ref: &UnitRef<'a>,
        to: &AttributeValue<Slice<'a>>,
    ) -> NamedFunction<'a> {
        match open.follow(unit_ref, to) {
            Some((unit_ref, entry)) => self.of(open, &unit_ref, entry),
            None => NamedFunction::default(),
        }
    }

    /// Returns the function of an entry.
    pub(super) fn of(
        &mut self,
        open: &mut OpenUnits<'a>,
        unit_ref: &UnitRef<'a>,
        entry: UnitOffset,
    ) -> NamedFunction<'a> {
        let key = match entry.to_debug_info_offset(&unit_ref.unit.header) {
            Some(offset) => (unit_ref.which, offset),
            None => return function(open, unit_ref, entry),
        };
        if let Some(known) = self.0.get(&key) {
            return *known;
        }
        let function = function(open, unit_ref, entry);
        self.0.insert(key, function);
        function
    }
}

/// Reads name and line.
fn function<'a>(
    open: &mut OpenUnits<'a>,
    unit_ref: &UnitRef<'a>,
    entry: UnitOffset,
) -> NamedFunction<'a> {
    let mut function = NamedFunction::default();
    let mut start_line = None;
    function.name = read(
        open,
        unit_ref,
        entry,
        (&mut start_line, &mut function.entry),
    );
    function.start_line = start_line.unwrap_or(0);
    function
}

/// Reads the name. A linkage name anywhere in the chain is preferred to a plain one. The first line in the chain is
/// that of the definition, where a declaration has one of its own. The last entry in the chain is what all copies of a function
/// have in common.
fn read<'a>(
    open: &mut OpenUnits<'a>,
    unit_ref: &UnitRef<'a>,
    entry: UnitOffset,
    (start_line, last): (&mut Option<u32>, &mut Option<FunctionEntry>),
) -> Option<&'a [u8]> {
    let (mut unit_ref, mut entry) = (unit_ref.clone(), entry);
    let mut plain = None;
    for _ in 0..MAX_STEPS {
        let mut next = None;
        let mut linkage = None;
        let mut entries = unit_ref.unit.entries_raw(Some(entry)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        open.work()
            .spend_len(64 + abbreviation.attributes().len())?;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    linkage = Some(attribute.value());
                }
                gimli::DW_AT_name if plain.is_none() => {
                    plain = text(&unit_ref, attribute.value(), open.work());
                }
                gimli::DW_AT_decl_line if start_line.is_none() => {
                    let line = attribute.udata_value();
                    *start_line = line.and_then(|line| u32::try_from(line).ok());
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = Some(attribute.value());
                }
                _ => {}
            }
        }
        let linkage = linkage.and_then(|value| text(&unit_ref, value, open.work()));
        if linkage.is_some() {
            return linkage;
        }
        let Some(found) = next.and_then(|next| open.follow(&unit_ref, &next)) else {
            break;
        };
        (unit_ref, entry) = found;
    }
    *last = function_entry(&unit_ref, entry);
    plain
}

/// Returns the place of an entry. `None` in files too large for its numbers.
fn function_entry(unit_ref: &UnitRef<'_>, entry: UnitOffset) -> Option<FunctionEntry> {
    const SHARED: u32 = 1 << 31;
    let header = &unit_ref.unit.header;
    let small = |offset: usize| {
        u32::try_from(offset)
            .ok()
            .filter(|small| *small < SHARED - 1)
    };
    let file = if unit_ref.which == DwarfFileKind::Shared {
        SHARED
    } else {
        0
    };
    Some(FunctionEntry {
        unit: file | small(header.debug_info_offset().map_or(0, |unit| unit.0))?,
        offset: small(entry.0)?,
    })
}

fn text<'a>(
    unit_ref: &UnitRef<'a>,
    value: AttributeValue<Slice<'a>>,
    work: &WorkBudget,
) -> Option<&'a [u8]> {
    let bytes = work.text(&unit_ref.dwarf, &unit_ref.unit, value)?;
    (!bytes.is_empty()).then_some(&bytes[..bytes.len().min(MAX_NAME)])
}
