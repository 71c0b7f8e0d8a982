//! [`DebugInfo`]: what is looked in; [`DwarfQuery`]: what for; [`Found`]: what was there.

use super::sections::{Naming, NoRoom, Sections};
use super::split::SplitFiles;
use super::units::Units;
use super::work_budget::WorkBudget;
use crate::frames::SourceLine;
use crate::pages::Pages;
use gimli::{Reader, SectionId};
use rprof_image::{FileVersion, MemoryBudget};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Debug information of one file. The bytes are kept elsewhere, and each method must be handed the
/// same ones.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub(super) sections: Sections,
    pub(super) memory: MemoryBudget,
    pub(super) units: OnceLock<Units>,
}

impl DwarfFile {
    /// Finds the debug sections. Returns `None` if the file has none.
    ///
    /// # Errors
    /// [`NoRoom`], if they do not go into `memory` once they are decompressed.
    pub(crate) fn find(bytes: &[u8], memory: &MemoryBudget) -> Result<Option<Self>, NoRoom> {
        let sections = Sections::find(bytes, Naming::Usual, memory)?;
        Ok(sections.map(|sections| Self {
            sections,
            memory: memory.clone(),
            units: OnceLock::new(),
        }))
    }

    /// Creates what a look-up of so many addresses may cost.
    pub(super) fn work(&self, addresses: usize) -> WorkBudget {
        WorkBudget::new(self.sections.len(), addresses, &self.memory)
    }

    /// Returns true unless the entries are damaged. Decompresses them.
    pub(super) fn has_entries(&self, bytes: &[u8]) -> bool {
        !self.sections.get(bytes, SectionId::DebugInfo).is_empty()
    }

    /// Returns the units, which are read on first use, on up to `threads` threads.
    pub(super) fn units(&self, bytes: &[u8], threads: usize) -> &Units {
        let read = || {
            let dwarf = self.sections.dwarf(bytes, false);
            let aranges = || self.sections.get(bytes, SectionId::DebugAranges).into();
            Units::read(&dwarf, aranges, &self.memory, threads)
        };
        self.units.get_or_init(read)
    }
}

/// Details that a lookup asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DwarfQuery {
    /// Inlined calls, and with them names of functions.
    pub(crate) inlines: bool,
    /// Files and lines.
    pub(crate) lines: bool,
}

impl Default for DwarfQuery {
    fn default() -> Self {
        Self {
            inlines: true,
            lines: true,
        }
    }
}

/// Debug information about an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The function and the calls inlined at the address, outermost first. Empty if no function
    /// covers the address.
    pub(crate) frames: Vec<FoundFrame>,
    /// SVMAs of the function: its contiguous range that contains the address.
    pub(crate) range: Range<u64>,
    /// Source line of the address itself.
    pub(crate) line: Option<SourceLine>,
}

/// A function, or an inlined call of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFrame {
    /// Linkage name, or else the plain name; `None` for a function without either.
    pub(crate) name: Option<Arc<str>>,
    /// Line where the function begins; 0 where that is unknown.
    pub(crate) start_line: u32,
    /// Call site of an inlined call.
    pub(crate) call: Option<SourceLine>,
    /// Entry of a function whose name is no linkage name.
    pub(crate) entry: Option<FunctionEntry>,
    /// What tells it from others of its name: ` (parser.rs:12)`; `None` where nothing has to.
    pub(crate) distinction: Option<Arc<str>>,
}

/// Entry of a function, the same for all its copies in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionEntry {
    /// Number of the unit.
    pub(crate) unit: u32,
    /// Offset in the unit.
    pub(crate) offset: u32,
}

/// Files that complete an image, opened.
#[derive(Clone, Copy)]
pub(crate) struct DebugInfo<'a> {
    /// File with the units, and its bytes.
    pub(crate) main: (&'a DwarfFile, &'a [u8]),
    /// Owner of these bytes.
    pub(crate) pages: &'a dyn Pages,
    /// Supplementary file that `dwz` made.
    pub(crate) shared: Option<(&'a DwarfFile, &'a [u8])>,
    /// Owner of its bytes.
    pub(crate) shared_pages: Option<&'a dyn Pages>,
    /// Places of its `.dwo` and `.dwp` files.
    pub(crate) split: &'a SplitFiles,
}

impl DebugInfo<'_> {
    /// Returns true unless the entries are damaged. Decompresses them.
    pub(crate) fn has_entries(&self) -> bool {
        let (file, bytes) = self.main;
        file.has_entries(bytes)
    }

    /// Returns the states of the files, unless one of them is no file of this machine, or a stranger's.
    pub(crate) fn versions(&self) -> Option<Vec<FileVersion>> {
        let files = [Some(self.pages), self.shared_pages];
        files.into_iter().flatten().map(Pages::version).collect()
    }

    /// Returns the bytes of all sections, decompressed, as stated.
    pub(crate) fn bytes(&self) -> u64 {
        let shared = self.shared.map_or(0, |(file, _)| file.sections.len());
        self.main.0.sections.len().saturating_add(shared)
    }
}
