//! The files that the line program of a unit names (DWARF 5, section 6.2.4).

use super::sections::Slice;
use super::texts::Texts;
use gimli::{
    AttributeValue, DebugLineOffset, Dwarf, IncompleteLineProgram, LineProgramHeader, Unit,
};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Longest path, and longest component of one, in bytes.
const MAX_PATH: usize = 16 << 10;

/// Files of a line program, by number.
pub(super) struct FileNames<'a> {
    dwarf: Rc<Dwarf<Slice<'a>>>,
    unit: Rc<Unit<Slice<'a>>>,
    program: IncompleteLineProgram<Slice<'a>>,
    known: FxHashMap<u64, Option<Arc<str>>>,
}

impl<'a> FileNames<'a> {
    /// Reads the header of the program at `offset` of `.debug_line`. Returns `None` if it is
    /// damaged.
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

    /// Returns the header of the program.
    pub(super) fn header(&self) -> &LineProgramHeader<Slice<'a>> {
        self.program.header()
    }

    /// Returns the path of a file: folder and name, made absolute with the folder of the
    /// compilation. `..` is not resolved.
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

/// Prepends a folder to a path, unless that is absolute.
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
