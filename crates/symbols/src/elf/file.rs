//! [`File`]: header, sections and symbol tables of an ELF file during parsing.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};
use std::ops::Range;

pub(super) struct File<'data, 'a, E: FileHeader<Endian = Endianness>> {
    pub(super) data: &'data [u8],
    pub(super) endian: Endianness,
    pub(super) machine: u16,
    pub(super) sections: &'a SectionTable<'data, E>,
}

impl<'data, E: FileHeader<Endian = Endianness>> File<'data, '_, E> {
    pub(super) fn symbols(&self, kind: elf::SectionType) -> Option<SymbolTable<'data, E>> {
        let table = self.sections.symbols(self.endian, self.data, kind).ok()?;
        (!table.is_empty()).then_some(table)
    }

    /// Returns the file range of a symbol table's strings. Empty if there is none.
    pub(super) fn string_range(&self, table: Option<&SymbolTable<'data, E>>) -> Range<usize> {
        let range = table.and_then(|table| {
            let section = self.sections.section(table.string_section()).ok()?;
            let (offset, size) = section.file_range(self.endian)?;
            let start = usize::try_from(offset).ok()?;
            let end = start
                .saturating_add(usize::try_from(size).ok()?)
                .min(self.data.len());
            (start <= end).then_some(start..end)
        });
        range.unwrap_or_default()
    }

    /// Returns the bytes of a section. Empty if it has none or is damaged.
    pub(super) fn section_bytes(&self, section: &E::SectionHeader) -> &'data [u8] {
        section.data(self.endian, self.data).unwrap_or_default()
    }
}
