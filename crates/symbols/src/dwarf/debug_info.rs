//! [`DebugInfo`]: the files with the debug information of an image.

use super::sections::{Naming, NoRoom, Sections};
use super::split::SplitFiles;
use super::units::Units;
use super::work_budget::WorkBudget;
use crate::pages::Pages;
use gimli::{Reader, SectionId};
use rprof_image::{FileVersion, MemoryBudget};
use std::sync::OnceLock;

/// Debug information of one file. The caller keeps the bytes and passes them to each method.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub(super) sections: Sections,
    pub(super) memory: MemoryBudget,
    pub(super) units: OnceLock<Units>,
}

impl DwarfFile {
    /// Finds the debug sections. `None` if the file has none.
    ///
    /// # Errors
    /// [`NoRoom`], if the decompressed sections exceed `memory`.
    pub(crate) fn find(bytes: &[u8], memory: &MemoryBudget) -> Result<Option<Self>, NoRoom> {
        let sections = Sections::find(bytes, Naming::Usual, memory)?;
        Ok(sections.map(|sections| Self {
            sections,
            memory: memory.clone(),
            units: OnceLock::new(),
        }))
    }

    pub(super) fn work(&self, addresses: usize) -> WorkBudget {
        WorkBudget::new(self.sections.len(), addresses, &self.memory)
    }

    /// Returns true unless the entries are damaged. Decompresses them.
    pub(super) fn has_entries(&self, bytes: &[u8]) -> bool {
        !self.sections.get(bytes, SectionId::DebugInfo).is_empty()
    }

    /// Reads the units on first use, on up to `threads` threads.
    pub(super) fn units(&self, bytes: &[u8], threads: usize) -> &Units {
        let read = || {
            let dwarf = self.sections.dwarf(bytes, false);
            let aranges = || self.sections.get(bytes, SectionId::DebugAranges).into();
            Units::read(&dwarf, aranges, &self.memory, threads)
        };
        self.units.get_or_init(read)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct DebugInfo<'a> {
    pub(crate) main: (&'a DwarfFile, &'a [u8]),
    /// Owner of these bytes.
    pub(crate) pages: &'a dyn Pages,
    pub(crate) shared: Option<(&'a DwarfFile, &'a [u8])>,
    /// Owner of its bytes.
    pub(crate) shared_pages: Option<&'a dyn Pages>,
    /// Search places for its `.dwo` and `.dwp` files.
    pub(crate) split: &'a SplitFiles,
}

impl DebugInfo<'_> {
    pub(crate) fn has_entries(&self) -> bool {
        let (file, bytes) = self.main;
        file.has_entries(bytes)
    }

    /// Returns the versions of the files; `None` if one is untrusted or not on this machine.
    pub(crate) fn versions(&self) -> Option<Vec<FileVersion>> {
        let files = [Some(self.pages), self.shared_pages];
        files.into_iter().flatten().map(Pages::version).collect()
    }

    /// Returns the stated decompressed length of all sections in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let shared = self.shared.map_or(0, |(file, _)| file.sections.len());
        self.main.0.sections.len().saturating_add(shared)
    }
}
