//! [`File`]: header, sections and symbol tables of an ELF file during parsing.

use object::elf;
use object::read::elf::{
    Dyn, FileHeader, GnuHashTable, HashTable, ProgramHeader, SectionHeader, SectionTable,
    SymbolTable,
};
use object::read::{SectionIndex, StringTable, SymbolIndex};
use object::{Endianness, ReadRef};
use rprof_image::Segments;
use std::ops::Range;

pub(super) struct File<'data, 'a, E: FileHeader<Endian = Endianness>> {
    pub(super) data: &'data [u8],
    pub(super) endian: Endianness,
    pub(super) header: &'data E,
    pub(super) machine: u16,
    pub(super) sections: &'a SectionTable<'data, E>,
    pub(super) segments: &'a Segments,
}

/// Symbol table with its names.
pub(super) struct Symbols<'data, E: FileHeader<Endian = Endianness>> {
    list: &'data [E::Sym],
    strings: StringTable<'data>,
    /// File range of the names.
    pub(super) string_range: Range<usize>,
    /// Empty in a file without section headers.
    section: SymbolTable<'data, E>,
}

impl<'data, E: FileHeader<Endian = Endianness>> Symbols<'data, E> {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'data E::Sym> + use<'data, E> {
        self.list.iter()
    }

    pub(super) fn enumerate(
        &self,
    ) -> impl Iterator<Item = (SymbolIndex, &'data E::Sym)> + use<'data, E> {
        let list = self.list.iter().enumerate();
        list.map(|(index, symbol)| (SymbolIndex(index), symbol))
    }

    pub(super) fn symbol(&self, index: SymbolIndex) -> Option<&'data E::Sym> {
        self.list.get(index.0)
    }

    pub(super) fn strings(&self) -> StringTable<'data> {
        self.strings
    }

    /// Returns the section of a symbol. `None` for undefined, absolute, common and damaged ones.
    pub(super) fn section_of(
        &self,
        endian: Endianness,
        symbol: &E::Sym,
        index: SymbolIndex,
    ) -> Option<SectionIndex> {
        let section = self.section.symbol_section(endian, symbol, index);
        section.ok().flatten()
    }
}

impl<'data, E: FileHeader<Endian = Endianness>> File<'data, '_, E> {
    /// Returns a symbol table that is not empty. In files without section headers (`sstrip`, `ld
    /// -z nosectionheader`), the dynamic segment leads to `.dynsym`.
    pub(super) fn symbols(&self, kind: elf::SectionType) -> Option<Symbols<'data, E>> {
        if self.sections.is_empty() {
            let dynamic = (kind == elf::SHT_DYNSYM).then(|| self.dynamic_symbols());
            return dynamic.flatten();
        }
        let table = self.sections.symbols(self.endian, self.data, kind).ok()?;
        let string_range = self.section_range(table.string_section());
        (!table.is_empty()).then(|| Symbols {
            list: table.symbols(),
            strings: table.strings(),
            string_range: string_range.unwrap_or_default(),
            section: table,
        })
    }

    /// Reads the symbols for the dynamic linker (System V ABI, "Dynamic Section"). Only
    /// the hash table gives their number.
    fn dynamic_symbols(&self) -> Option<Symbols<'data, E>> {
        let endian = self.endian;
        let dynamic = self.dynamic()?;
        let value = |tag| self.dynamic_value(dynamic, tag);
        let offset = |tag| Some(self.segments.offset_of_svma(value(tag)?)?.0);
        let bytes = |tag| self.data.get(usize::try_from(offset(tag)?).ok()?..);
        let by_gnu = || {
            let table = GnuHashTable::<E>::parse(endian, bytes(elf::DT_GNU_HASH)?).ok()?;
            table.symbol_table_length(endian)
        };
        let by_old = || {
            let table = HashTable::<E>::parse(endian, bytes(elf::DT_HASH)?).ok()?;
            Some(table.symbol_table_length())
        };
        let count = by_gnu().or_else(by_old)? as usize;
        let list = self.data.read_slice_at(offset(elf::DT_SYMTAB)?, count);
        let list: &'data [E::Sym] = list.ok().filter(|list: &&[_]| !list.is_empty())?;
        let start = offset(elf::DT_STRTAB)?;
        let end = start.checked_add(value(elf::DT_STRSZ)?)?;
        Some(Symbols {
            list,
            strings: StringTable::new(self.data, start, end),
            string_range: self.range(start, end)?,
            section: SymbolTable::default(),
        })
    }

    /// Returns the entries of the dynamic segment.
    pub(super) fn dynamic(&self) -> Option<&'data [E::Dyn]> {
        let segments = self.header.program_headers(self.endian, self.data).ok()?;
        let mut found = segments.iter();
        found.find_map(|segment| segment.dynamic(self.endian, self.data).ok().flatten())
    }

    pub(super) fn dynamic_value(&self, dynamic: &[E::Dyn], tag: elf::DynamicTag) -> Option<u64> {
        let found = (dynamic.iter()).find(|entry| entry.d_tag(self.endian) == tag)?;
        Some(found.d_val(self.endian).into())
    }

    fn section_range(&self, section: SectionIndex) -> Option<Range<usize>> {
        let section = self.sections.section(section).ok()?;
        let (offset, size) = section.file_range(self.endian)?;
        self.range(offset, offset.saturating_add(size))
    }

    fn range(&self, start: u64, end: u64) -> Option<Range<usize>> {
        let start = usize::try_from(start).ok()?;
        let end = usize::try_from(end).map_or(self.data.len(), |end| end.min(self.data.len()));
        (start <= end).then_some(start..end)
    }

    /// Returns the bytes of a section. Empty if it has none or is damaged.
    pub(super) fn section_bytes(&self, section: &E::SectionHeader) -> &'data [u8] {
        section.data(self.endian, self.data).unwrap_or_default()
    }
}
