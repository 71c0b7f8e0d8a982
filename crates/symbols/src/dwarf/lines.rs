//! File names in the line program of a unit (DWARF 5, section 6.2.4).

use super::sections::Slice;
use super::work_budget::{Texts, WorkBudget};
use gimli::{
    AttributeValue, DebugLineOffset, Dwarf, IncompleteLineProgram, LineProgramHeader, Reader,
    Section, Unit,
};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

const MAX_PATH: usize = 16 << 10;

/// Maximum length of a header, in bytes. The largest units have 100 KiB, and fifty times as much
/// when parsed.
const MAX_HEADER: usize = 1 << 20;

pub(super) struct FileNames<'a> {
    dwarf: Rc<Dwarf<Slice<'a>>>,
    unit: Rc<Unit<Slice<'a>>>,
    program: IncompleteLineProgram<Slice<'a>>,
    work: Arc<WorkBudget>,
    known: FxHashMap<u64, Option<Arc<str>>>,
}

impl<'a> FileNames<'a> {
    /// Reads a header. `None` if it is damaged, too long, or beyond the budget.
    pub(super) fn of(
        dwarf: &Rc<Dwarf<Slice<'a>>>,
        unit: &Rc<Unit<Slice<'a>>>,
        offset: DebugLineOffset,
        work: &Arc<WorkBudget>,
    ) -> Option<Self> {
        let section = dwarf.debug_line.reader();
        let lengths = Lengths::read(*section, offset)?;
        if lengths.header > MAX_HEADER {
            work.refuse();
            return None;
        }
        // A row may take one byte of the program, a file entry a few bytes of the header.
        work.spend_len(lengths.header.saturating_mul(16))?;
        work.spend_len(lengths.program.saturating_mul(2))?;
        let (size, folder) = (unit.header.address_size(), unit.comp_dir);
        let program = dwarf.debug_line.program(offset, size, folder, None).ok()?;
        Some(Self {
            dwarf: Rc::clone(dwarf),
            unit: Rc::clone(unit),
            program,
            work: Arc::clone(work),
            known: FxHashMap::default(),
        })
    }

    pub(super) fn header(&self) -> &LineProgramHeader<Slice<'a>> {
        self.program.header()
    }

    /// Returns the path of a file, made absolute with the compilation directory. Keeps `..`.
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
        // Before DWARF 5, files count from 1, and 0 means none.
        let file = header.file(file)?;
        let mut path = self.text(file.path_name())?.to_vec();
        if let Some(folder) = file.directory(header).and_then(|value| self.text(value)) {
            put_before(&mut path, folder);
        }
        // Folder 0 is the compilation directory, unlisted before DWARF 5.
        let is_whole = header.version() < 5 && file.directory_index() == 0;
        if let Some(folder) = self.unit.comp_dir.filter(|_| !is_whole) {
            put_before(&mut path, folder.slice());
        }
        path.truncate(MAX_PATH);
        Some(path)
    }

    fn text(&self, value: AttributeValue<Slice<'a>>) -> Option<&'a [u8]> {
        let bytes = self.work.text(&self.dwarf, &self.unit, value)?;
        Some(&bytes[..bytes.len().min(MAX_PATH)])
    }
}

struct Lengths {
    header: usize,
    program: usize,
}

impl Lengths {
    fn read(section: Slice<'_>, offset: DebugLineOffset) -> Option<Self> {
        let mut at = section;
        at.skip(offset.0).ok()?;
        let (len, format) = at.read_initial_length().ok()?;
        at.truncate(len).ok()?;
        if at.read_u16().ok()? >= 5 {
            // Sizes of addresses and of segment selectors.
            at.skip(2).ok()?;
        }
        let header = at.read_length(format).ok()?;
        let program = at.len().checked_sub(header)?;
        Some(Self { header, program })
    }
}

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
