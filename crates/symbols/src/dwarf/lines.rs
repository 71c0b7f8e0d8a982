//! The line program of a unit (DWARF 5, section 6.2), run once for all addresses that are asked for.

use super::sections::Slice;
use super::texts::Texts;
use gimli::{AttributeValue, ColumnType, DebugLineOffset, Dwarf, IncompleteLineProgram, Unit};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A row of the line table: file by number, as the header counts; 0 for an unknown line or column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Runs the program and returns the row for each of `svmas`, which are sorted. Damage ends it;
/// what was found before stands.
///
/// Of several rows for one address the last holds, as for the other tools.
pub(super) fn rows(program: &IncompleteLineProgram<Slice<'_>>, svmas: &[u64]) -> Vec<Option<Row>> {
    let mut found = vec![None; svmas.len()];
    let mut missing = svmas.len();
    let mut rows = program.clone().rows();
    // The row before, and the first address not yet behind it.
    let mut before: Option<(u64, Row)> = None;
    let mut next = 0;
    while missing > 0
        && let Ok(Some((_, row))) = rows.next_row()
    {
        let address = row.address();
        if let Some((start, value)) = before {
            // Rows rise within a sequence. What a linker threw away begins at 0.
            if address > start && start != 0 {
                while let Some(&svma) = svmas.get(next)
                    && svma < address
                {
                    if svma >= start && found[next].is_none() {
                        found[next] = Some(value);
                        missing -= 1;
                    }
                    next += 1;
                }
            }
        } else {
            next = svmas.partition_point(|&svma| svma < address);
        }
        before = match row.end_sequence() {
            true => None,
            false => Some((address, read(row))),
        };
    }
    found
}

fn read(row: &gimli::LineRow) -> Row {
    let small = |value: u64| u32::try_from(value).unwrap_or(0);
    Row {
        file: row.file_index(),
        line: row.line().map_or(0, |line| small(line.get())),
        column: match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => small(column.get()),
        },
    }
}

/// Longest path that is put together, and each part of it.
const MAX_PATH: usize = 16 << 10;

/// The files of a line program, by number.
pub(super) struct FileNames<'a> {
    dwarf: Rc<Dwarf<Slice<'a>>>,
    unit: Rc<Unit<Slice<'a>>>,
    program: IncompleteLineProgram<Slice<'a>>,
    known: FxHashMap<u64, Option<Arc<str>>>,
}

impl<'a> FileNames<'a> {
    /// Those of the program at `offset` of `.debug_line`. `None` if it is damaged.
    pub(super) fn of(
        dwarf: &Rc<Dwarf<Slice<'a>>>,
        unit: &Rc<Unit<Slice<'a>>>,
        offset: DebugLineOffset,
    ) -> Option<Self> {
        let (size, folder) = (unit.header.address_size(), unit.comp_dir);
        let program = dwarf.debug_line.program(offset, size, folder, None).ok()?;
        Some(Self {
            dwarf: Rc::clone(dwarf),
            unit: Rc::clone(unit),
            program,
            known: FxHashMap::default(),
        })
    }

    /// The program.
    pub(super) fn program(&self) -> &IncompleteLineProgram<Slice<'a>> {
        &self.program
    }

    /// The path of a file: folder and name, behind the folder of the compilation where
    /// these are relative. As stated; `..` stays.
    pub(super) fn path(&mut self, file: u64, texts: &mut Texts) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(&file) {
            return known.clone();
        }
        let path = self.join(file).and_then(|path| texts.get(&path));
        self.known.insert(file, path.clone());
        path
    }

    fn join(&self, file: u64) -> Option<Vec<u8>> {
        let header = self.program.header();
        // Before DWARF 5 files count from 1, and 0 is none.
        let file = header.file(file)?;
        let mut path = self.text(file.path_name())?.to_vec();
        if let Some(folder) = file.directory(header).and_then(|value| self.text(value)) {
            put_before(&mut path, folder);
        }
        // Folder 0 is that of the compilation; before DWARF 5 it is not listed.
        let is_whole = header.version() < 5 && file.directory_index() == 0;
        if let Some(folder) = self.unit.comp_dir.filter(|_| !is_whole) {
            put_before(&mut path, folder.slice());
        }
        path.truncate(MAX_PATH);
        Some(path)
    }

    fn text(&self, value: AttributeValue<Slice<'a>>) -> Option<&'a [u8]> {
        let bytes = self.dwarf.attr_string(&self.unit, value).ok()?.slice();
        Some(&bytes[..bytes.len().min(MAX_PATH)])
    }
}

/// Puts a folder before a path, unless that is absolute.
fn put_before(path: &mut Vec<u8>, folder: &[u8]) {
    if path.starts_with(b"/") || folder.is_empty() {
        return;
    }
    let mut whole = folder.to_vec();
    if !whole.ends_with(b"/") {
        whole.push(b'/');
    }
    whole.append(path);
    *path = whole;
}
