//! Lookup of the addresses in one unit, with state that a thread keeps across units.

use super::debug_info::DebugInfo;
use super::head::Head;
use super::lines::FileNames;
use super::names::FunctionNames;
use super::query::{DwarfQuery, Found, FoundFrame, FunctionEntry};
use super::rows::{Row, rows};
use super::sections::Slice;
use super::unit_refs::{DwarfFileKind, OpenUnits, UnitRef};
use super::units::Units;
use super::walk::{Walk, Wanted};
use super::work_budget::{Texts, WorkBudget};
use crate::frames::SourceLine;
use gimli::{DebugInfoOffset, DebugLineOffset, Dwarf, SectionId};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Batch<'a> {
    info: DebugInfo<'a>,
    query: DwarfQuery,
    open: OpenUnits<'a>,
    names: FunctionNames<'a>,
    texts: Texts,
    work: Arc<WorkBudget>,
    /// Range of `.debug_info` that was read and not yet released.
    read: Range<usize>,
}

const RELEASE: usize = 1 << 20;

impl<'a> Batch<'a> {
    pub(super) fn new(info: DebugInfo<'a>, query: DwarfQuery, work: &Arc<WorkBudget>) -> Self {
        let (file, bytes) = info.main;
        let mut dwarf = file.sections.dwarf(bytes, query.lines);
        let shared = info.shared.map(|(file, bytes)| {
            dwarf.set_sup(file.sections.dwarf(bytes, query.lines));
            let dwarf = file.sections.dwarf(bytes, query.lines);
            (dwarf, file.units(bytes, 1))
        });
        Self {
            info,
            query,
            open: OpenUnits::new((dwarf, file.units(bytes, 1)), shared, work),
            names: FunctionNames::default(),
            texts: Texts::new(work),
            work: Arc::clone(work),
            read: 0..0,
        }
    }

    pub(super) fn open_unit(
        &mut self,
        offset: DebugInfoOffset,
    ) -> Option<(UnitRef<'a>, Option<DebugLineOffset>)> {
        let Head { unit, lines, .. } = self.open.head(offset)?;
        let unit_ref = UnitRef {
            which: DwarfFileKind::Main,
            dwarf: Rc::clone(self.open.main()),
            unit: Rc::new(unit),
        };
        Some((unit_ref, lines))
    }

    pub(super) fn work(&self) -> &Arc<WorkBudget> {
        &self.work
    }

    /// Releases the memory of read units in steps of [`RELEASE`] bytes, so that memory does not
    /// grow with the file.
    fn release(&mut self, unit: Range<usize>) {
        if self.read.is_empty() || unit.start < self.read.end {
            self.read = unit;
        } else {
            self.read.end = unit.end;
        }
        if self.read.len() >= RELEASE {
            let read = std::mem::take(&mut self.read);
            let (file, _) = self.info.main;
            if let Some(place) = file.sections.place(SectionId::DebugInfo, read) {
                self.info.pages.release(place);
            }
        }
    }

    /// Returns one result for each of the sorted `svmas`.
    pub(super) fn unit(&mut self, offset: DebugInfoOffset, svmas: &[u64]) -> Vec<Found> {
        let Some(head) = self.open.head(offset) else {
            return vec![Found::default(); svmas.len()];
        };
        let Head {
            unit, lines, split, ..
        } = head;
        let unit_ref = UnitRef {
            which: DwarfFileKind::Main,
            dwarf: Rc::clone(self.open.main()),
            unit: Rc::new(unit),
        };
        let mut files = (self.query.lines)
            .then(|| FileNames::of(&unit_ref.dwarf, &unit_ref.unit, lines?, &self.work))
            .flatten();
        let lines = files.as_ref().map(|files| rows(files.header(), svmas));

        let mut found = match self.query.inlines {
            true => self.functions(&unit_ref, split, svmas, files.as_mut()),
            false => vec![Found::default(); svmas.len()],
        };
        if let (Some(lines), Some(files)) = (lines, &mut files) {
            for (found, row) in found.iter_mut().zip(lines) {
                found.line = row.and_then(|row| source_line(files, &mut self.texts, row));
            }
        }
        let len = unit_ref.unit.header.length_including_self();
        self.release(offset.0..offset.0.saturating_add(len));
        found
    }

    fn functions(
        &mut self,
        unit_ref: &UnitRef<'a>,
        split: Option<Slice<'a>>,
        svmas: &[u64],
        files: Option<&mut FileNames<'a>>,
    ) -> Vec<Found> {
        let texts = &mut self.texts;
        if let Some(split) = self.info.split.find(&unit_ref.unit, split)
            && let Some((dwarf, head)) =
                split.head(&unit_ref.dwarf, &unit_ref.unit, &self.work, self.query)
        {
            // The split file is closed afterwards, so no cache may refer to it.
            let units = Units::default();
            let mut open = OpenUnits::new((Dwarf::default(), &units), None, &self.work);
            let mut names = FunctionNames::default();
            let split_ref = UnitRef {
                which: DwarfFileKind::Split,
                dwarf: Rc::new(dwarf),
                unit: Rc::new(head.unit),
            };
            let mut own = (self.query.lines)
                .then(|| FileNames::of(&split_ref.dwarf, &split_ref.unit, head.lines?, &self.work))
                .flatten();
            // File numbers refer to its own list, or else to the skeleton unit's.
            let mut found = match &mut own {
                Some(own) => look_up(&mut open, &mut names, texts, &split_ref, svmas, Some(own)),
                None => look_up(&mut open, &mut names, texts, &split_ref, svmas, files),
            };
            // Units of all split files start at the same offset, so the skeleton's offset
            // identifies the unit.
            let unit = unit_ref.unit.header.debug_info_offset();
            let unit = unit.and_then(|unit| u32::try_from(unit.0).ok());
            for frame in found.iter_mut().flat_map(|found| &mut found.frames) {
                frame.entry =
                    (frame.entry.zip(unit)).map(|(entry, unit)| FunctionEntry { unit, ..entry });
            }
            return found;
        }
        let (open, names) = (&mut self.open, &mut self.names);
        look_up(open, names, texts, unit_ref, svmas, files)
    }
}

fn look_up<'u>(
    open: &mut OpenUnits<'u>,
    names: &mut FunctionNames<'u>,
    texts: &mut Texts,
    unit_ref: &UnitRef<'u>,
    svmas: &[u64],
    mut files: Option<&mut FileNames<'_>>,
) -> Vec<Found> {
    let mut wanted: Vec<Wanted<'u>> = svmas.iter().map(|&svma| Wanted::at(svma)).collect();
    let unit_len = unit_ref.unit.header.length_including_self();
    let none = || vec![Found::default(); svmas.len()];
    if open.work().spend_len(unit_len).is_none() {
        return none();
    }
    Walk::new(&unit_ref.dwarf, &unit_ref.unit, &mut wanted).run(false);
    let mut missing: Vec<Wanted<'u>> = (wanted.iter())
        .filter(|wanted| wanted.function.is_none())
        .map(|wanted| Wanted::at(wanted.svma))
        .collect();
    if !missing.is_empty() && open.work().spend_len(unit_len).is_some() {
        Walk::new(&unit_ref.dwarf, &unit_ref.unit, &mut missing).run(true);
        let mut missing = missing.into_iter();
        for wanted in &mut wanted {
            if wanted.function.is_none()
                && let Some(found) = missing.next()
            {
                *wanted = found;
            }
        }
    }
    let finish = |wanted: Wanted<'u>| {
        let mut found = Found::default();
        let Some(function) = wanted.function else {
            return found;
        };
        let named = names.of(open, unit_ref, function.entry);
        found.range = function.range;
        found.frames.push(FoundFrame {
            name: named.name.and_then(|name| texts.get(name)),
            start_line: named.start_line,
            call: None,
            entry: named.entry,
            distinction: None,
        });
        for call in wanted.calls {
            let origin = call.origin.as_ref();
            let named = origin.map(|origin| names.referred(open, unit_ref, origin));
            let named = named.unwrap_or_default();
            let row = Row {
                file: call.file,
                line: call.line,
                column: call.column,
            };
            let files = files.as_deref_mut();
            found.frames.push(FoundFrame {
                name: named.name.and_then(|name| texts.get(name)),
                start_line: named.start_line,
                call: files.and_then(|files| source_line(files, texts, row)),
                entry: named.entry,
                distinction: None,
            });
        }
        found
    };
    wanted.into_iter().map(finish).collect()
}

fn source_line(files: &mut FileNames<'_>, texts: &mut Texts, row: Row) -> Option<SourceLine> {
    Some(SourceLine {
        file: files.path(row.file, texts)?,
        line: row.line,
        column: row.column,
    })
}
