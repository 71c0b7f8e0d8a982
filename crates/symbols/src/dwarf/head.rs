//! Root entry of a unit, as far as lookups need it.

use super::abbreviations;
use super::ranges::Pcs;
use super::sections::Slice;
use gimli::{
    Abbreviations, AttributeValue, DebugLineOffset, Dwarf, Reader, Unit, UnitHeader, UnitType,
};
use std::sync::Arc;

pub(super) struct Head<'a> {
    /// Without name and line program, which gimli would read eagerly.
    pub(super) unit: Unit<Slice<'a>>,
    pub(super) pcs: Pcs<'a>,
    pub(super) lines: Option<DebugLineOffset>,
    /// Name of the split file (DWARF 5, section 3.1.2).
    pub(super) split: Option<Slice<'a>>,
    /// A partial unit has no code and is imported by other units.
    pub(super) is_partial: bool,
}

impl<'a> Head<'a> {
    /// Reads the root entry. `abbreviations` need only contain the root's.
    pub(super) fn read(
        dwarf: &Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
        abbreviations: Arc<Abbreviations>,
    ) -> gimli::Result<Self> {
        let encoding = header.encoding();
        let mut unit = Unit {
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
                encoding,
                dwarf.file_type,
            ),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase(0),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(
                encoding,
                dwarf.file_type,
            ),
            line_program: None,
            dwo_id: match header.type_() {
                UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
                _ => None,
            },
            header,
        };
        let (mut pcs, mut lines) = (Pcs::default(), None);
        let (mut folder, mut split, mut low_pc) = (None, None, None);
        let mut is_partial = false;
        {
            let mut entries = unit.header.entries_raw(&unit.abbreviations, None)?;
            let root = entries
                .read_abbreviation()?
                .ok_or(gimli::Error::MissingUnitDie)?;
            is_partial |= root.tag() == gimli::DW_TAG_partial_unit;
            for spec in root.attributes() {
                let attribute = entries.read_attribute(*spec)?;
                pcs.note(&attribute);
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                    (gimli::DW_AT_low_pc, value) => low_pc = Some(value),
                    (gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name, value) => {
                        split = Some(value);
                    }
                    (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => lines = Some(at),
                    (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                        unit.str_offsets_base = base;
                    }
                    (
                        gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                        AttributeValue::DebugAddrBase(base),
                    ) => unit.addr_base = base,
                    (
                        gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                        AttributeValue::DebugRngListsBase(base),
                    ) => unit.rnglists_base = base,
                    (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => {
                        unit.dwo_id.get_or_insert(id);
                    }
                    _ => {}
                }
            }
        }
        unit.comp_dir = folder.and_then(|value| dwarf.attr_string(&unit, value).ok());
        let split = split.and_then(|value| dwarf.attr_string(&unit, value).ok());
        if let Some(value) = low_pc {
            unit.low_pc = dwarf.attr_address(&unit, value)?.unwrap_or(0);
        }
        Ok(Self {
            unit,
            pcs,
            lines,
            split,
            is_partial,
        })
    }

    /// Reads the root entry with its own abbreviation alone. `budget` limits the bytes of
    /// abbreviations to skip.
    pub(super) fn read_alone(
        dwarf: &Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
        budget: &mut usize,
    ) -> Option<Self> {
        let code = header
            .range_from(header.root_offset()..)
            .ok()?
            .read_uleb128()
            .ok()?;
        let offset = header.debug_abbrev_offset();
        let own = abbreviations::one(&dwarf.debug_abbrev, offset, code, budget)?;
        Self::read(dwarf, header, Arc::new(own)).ok()
    }
}
