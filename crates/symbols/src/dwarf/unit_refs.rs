//! References to entries in another unit, or in the supplementary file shared by several images.

use super::abbreviations;
use super::head::Head;
use super::sections::Slice;
use super::units::Units;
use super::work_budget::WorkBudget;
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrevOffset, DebugInfoOffset, Dwarf, Reader, Unit,
    UnitOffset,
};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DwarfFileKind {
    /// The image itself, or its debug file.
    Main,
    /// Supplementary file that `dwz` made for several images (DWARF 5, section 7.3.6).
    Shared,
    Split,
}

#[derive(Clone)]
pub(super) struct UnitRef<'a> {
    pub(super) which: DwarfFileKind,
    pub(super) dwarf: Rc<Dwarf<Slice<'a>>>,
    pub(super) unit: Rc<Unit<Slice<'a>>>,
}

pub(super) struct OpenUnits<'a> {
    main: (Rc<Dwarf<Slice<'a>>>, &'a Units),
    shared: Option<(Rc<Dwarf<Slice<'a>>>, &'a Units)>,
    units: FxHashMap<(DwarfFileKind, DebugInfoOffset), Rc<Unit<Slice<'a>>>>,
    /// `None` for unreadable tables.
    abbreviations: FxHashMap<(DwarfFileKind, DebugAbbrevOffset), Option<Arc<Abbreviations>>>,
    /// Bytes of the tables in `abbreviations` and `units`.
    kept: usize,
    work: Arc<WorkBudget>,
}

const MAX_OPEN: usize = 256;

/// Maximum number of bytes of abbreviation tables. Parsed, they take ten times as much.
const MAX_KEPT: usize = 4 << 20;

impl<'a> OpenUnits<'a> {
    pub(super) fn new(
        main: (Dwarf<Slice<'a>>, &'a Units),
        shared: Option<(Dwarf<Slice<'a>>, &'a Units)>,
        work: &Arc<WorkBudget>,
    ) -> Self {
        let rc = |(dwarf, units)| (Rc::new(dwarf), units);
        Self {
            main: rc(main),
            shared: shared.map(rc),
            units: FxHashMap::default(),
            abbreviations: FxHashMap::default(),
            kept: 0,
            work: Arc::clone(work),
        }
    }

    pub(super) fn main(&self) -> &Rc<Dwarf<Slice<'a>>> {
        &self.main.0
    }

    pub(super) fn work(&self) -> &Arc<WorkBudget> {
        &self.work
    }

    pub(super) fn head(&mut self, offset: DebugInfoOffset) -> Option<Head<'a>> {
        let dwarf = Rc::clone(&self.main.0);
        self.head_of(DwarfFileKind::Main, &dwarf, offset)
    }

    fn head_of(
        &mut self,
        which: DwarfFileKind,
        dwarf: &Dwarf<Slice<'a>>,
        offset: DebugInfoOffset,
    ) -> Option<Head<'a>> {
        let header = dwarf.unit_header(offset).ok()?;
        let key = (which, header.debug_abbrev_offset());
        let abbreviations = match self.abbreviations.get(&key) {
            Some(known) => known.clone(),
            None => {
                if self.abbreviations.len() >= MAX_OPEN {
                    self.abbreviations.clear();
                }
                let offset = header.debug_abbrev_offset();
                let read = abbreviations::table(&dwarf.debug_abbrev, offset, &self.work);
                let len = read.as_ref().map_or(0, |(_, len)| *len);
                if self.kept + len > MAX_KEPT {
                    self.abbreviations.clear();
                    self.units.clear();
                    self.kept = 0;
                }
                self.kept += len;
                let read = read.map(|(table, _)| Arc::new(table));
                self.abbreviations.insert(key, read.clone());
                read
            }
        };
        let abbreviations = abbreviations?;
        // A short root entry may have many attributes without length.
        let root = header.range_from(header.root_offset()..).ok();
        let code = root.and_then(|mut root| root.read_uleb128().ok())?;
        let attributes = abbreviations.get(code)?.attributes().len();
        self.work.spend_len(64 + 16 * attributes)?;
        Head::read(dwarf, header, abbreviations).ok()
    }

    pub(super) fn follow(
        &mut self,
        unit_ref: &UnitRef<'a>,
        to: &AttributeValue<Slice<'a>>,
    ) -> Option<(UnitRef<'a>, UnitOffset)> {
        match to {
            AttributeValue::UnitRef(offset) => Some((unit_ref.clone(), *offset)),
            AttributeValue::DebugInfoRef(offset) => {
                if let Some(inside) = offset.to_unit_offset(&unit_ref.unit.header) {
                    return Some((unit_ref.clone(), inside));
                }
                self.find(unit_ref.which, *offset)
            }
            AttributeValue::DebugInfoRefSup(offset) => self.find(DwarfFileKind::Shared, *offset),
            _ => None,
        }
    }

    fn find(
        &mut self,
        which: DwarfFileKind,
        offset: DebugInfoOffset,
    ) -> Option<(UnitRef<'a>, UnitOffset)> {
        let (dwarf, units) = match which {
            DwarfFileKind::Main => (Rc::clone(&self.main.0), self.main.1),
            DwarfFileKind::Shared => {
                let (dwarf, units) = self.shared.as_ref()?;
                (Rc::clone(dwarf), *units)
            }
            DwarfFileKind::Split => return None,
        };
        let start = units.containing(offset)?;
        let unit = match self.units.get(&(which, start)) {
            Some(unit) => Rc::clone(unit),
            None => {
                if self.units.len() >= MAX_OPEN {
                    self.units.clear();
                }
                let unit = Rc::new(self.head_of(which, &dwarf, start)?.unit);
                self.units.insert((which, start), Rc::clone(&unit));
                unit
            }
        };
        let inside = offset.to_unit_offset(&unit.header)?;
        Some((UnitRef { which, dwarf, unit }, inside))
    }
}
