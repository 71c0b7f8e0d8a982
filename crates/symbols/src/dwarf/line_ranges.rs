//! Rows of the line table for a range of addresses.
//!
//! addr2line reads them from a view of the file reduced to one unit, independent of the number of
//! units. The work budget applies here too.

use super::batch::Batch;
use super::debug_info::DebugInfo;
use super::lines::FileNames;
use super::query::DwarfQuery;
use super::unit_refs::UnitRef;
use crate::frames::SourceLine;
use gimli::{DebugInfoOffset, EndianSlice, Reader, SectionId};
use std::ops::Range;
use std::sync::Arc;

/// Maximum length of a line program, in bytes. Rows take twenty times as much memory.
const MAX_PROGRAM: usize = 16 << 20;

const MAX_UNITS: usize = 4;

/// Row of the line table: code, and its source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRange {
    /// SVMAs of the code.
    pub svmas: Range<u64>,
    /// Source line; `None` for code without one.
    pub line: Option<SourceLine>,
}

impl<'a> DebugInfo<'a> {
    pub(crate) fn line_ranges(&self, svmas: Range<u64>, threads: usize) -> Vec<LineRange> {
        let (file, bytes) = self.main;
        file.sections.inflate(bytes, true, threads);
        let units = file.units(bytes, threads);
        let work = Arc::new(file.work(1));
        let mut batch = Batch::new(*self, DwarfQuery::default(), &work);
        for unit in units.at(svmas.start).take(MAX_UNITS) {
            let offset = units.offset(unit);
            let Some(unit) = batch.readable_lines(offset, MAX_PROGRAM) else {
                continue;
            };
            let rows = self.rows_of_unit(offset, &unit, &svmas);
            if !rows.is_empty() {
                return rows;
            }
        }
        Vec::new()
    }

    fn rows_of_unit(
        &self,
        offset: DebugInfoOffset,
        unit: &UnitRef<'a>,
        svmas: &Range<u64>,
    ) -> Vec<LineRange> {
        let (file, bytes) = self.main;
        let section = file.sections.get(bytes, SectionId::DebugInfo);
        let len = unit.unit.header.length_including_self();
        let end = offset.0.saturating_add(len);
        let Some(own) = section.slice().get(offset.0..end) else {
            return Vec::new();
        };
        // Unit offsets have changed.
        let mut dwarf = file.sections.dwarf(bytes, true);
        dwarf.debug_info = EndianSlice::new(own, section.endian()).into();
        let Ok(context) = addr2line::Context::from_dwarf(dwarf) else {
            return Vec::new();
        };
        let Ok(found) = context.find_location_range(svmas.start, svmas.end) else {
            return Vec::new();
        };
        let mut files: Vec<Arc<str>> = Vec::new();
        let mut rows = Vec::new();
        for (start, len, location) in found {
            let row = start.max(svmas.start)..start.saturating_add(len).min(svmas.end);
            // Code discarded by the linker has address 0.
            if row.is_empty() || start == 0 {
                continue;
            }
            let line = location.file.zip(location.line).map(|(file, line)| {
                let known = files.iter().find(|known| ***known == *file);
                let file = known.cloned().unwrap_or_else(|| {
                    files.push(file.into());
                    files[files.len() - 1].clone()
                });
                SourceLine {
                    file,
                    line,
                    column: location.column.unwrap_or(0),
                }
            });
            rows.push(LineRange { svmas: row, line });
        }
        rows.sort_by_key(|row| row.svmas.start);
        rows
    }
}

impl<'a> Batch<'a> {
    /// Opens the unit at `offset`, unless its line program exceeds `most` bytes or the budget.
    fn readable_lines(&mut self, offset: DebugInfoOffset, most: usize) -> Option<UnitRef<'a>> {
        let (unit, lines) = self.open_unit(offset)?;
        let files = FileNames::of(&unit.dwarf, &unit.unit, lines?, self.work())?;
        (files.header().raw_program_buf().len() <= most).then_some(unit)
    }
}
