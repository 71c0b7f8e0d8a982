//! Names of functions (linkage name, or else plain name) and their start lines.

use super::query::FunctionEntry;
use super::sections::Slice;
use super::unit_refs::{DwarfFileKind, OpenUnits, UnitRef};
use super::work_budget::WorkBudget;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use rustc_hash::FxHashMap;

const MAX_NAME: usize = 64 << 10;

/// Maximum number of references to a name, for cycles. An inlined call refers to its function,
/// which may refer to a declaration (DWARF 5, sections 2.13.2 and 3.3.8.1).
const MAX_STEPS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedFunction<'a> {
    pub(super) name: Option<&'a [u8]>,
    /// Line of its declaration (`DW_AT_decl_line`); 0 if unknown.
    pub(super) start_line: u32,
    /// Entry with the plain name; `None` for a linkage name, which is unique.
    pub(super) entry: Option<FunctionEntry>,
}

/// Cache of functions by offset of their entry.
#[derive(Default)]
pub(super) struct FunctionNames<'a>(FxHashMap<(DwarfFileKind, DebugInfoOffset), NamedFunction<'a>>);

impl<'a> FunctionNames<'a> {
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

/// Follows references. A linkage name wins over a plain one. The first line wins, as it belongs to
/// the definition. The last entry is common to all copies of a function.
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
