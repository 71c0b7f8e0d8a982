//! [`ImageSymbols`]: the symbols of an image that a runtime needs.

use std::ops::Range;

use object::elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, SectionType};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, ReadRef};
use rustc_hash::FxHashMap;

use crate::split::{MAX_SPLIT, split_parts};

/// Maximum number of symbols kept.
const MAX_SYMBOLS: usize = 1 << 16;

/// Address and size of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSymbol {
    /// Stated address (SVMA).
    pub svma: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
}

/// Symbols of an image, by name. Holds only the symbols that a runtime needs.
#[derive(Clone, Debug, Default)]
pub struct ImageSymbols {
    by_name: FxHashMap<Box<[u8]>, ImageSymbol>,
    parts: Vec<Range<u64>>,
    version: Option<u64>,
}

impl ImageSymbols {
    /// Reads the symbols with wanted names from `.dynsym` of a 64-bit ELF image, and from `.symtab`
    /// unless `has_all` accepts them. Empty for other or damaged files.
    pub fn read<'data, R: ReadRef<'data>>(
        file: R,
        wants: impl Fn(&[u8]) -> bool,
        has_all: impl Fn(&Self) -> bool,
    ) -> Self {
        let mut symbols = Self::default();
        for kind in [SHT_DYNSYM, SHT_SYMTAB] {
            if has_all(&symbols) {
                break;
            }
            symbols.read_table(file, kind, &wants);
        }
        symbols
    }

    /// Returns true if a 64-bit ELF image exports this symbol.
    pub fn is_exported<'data, R: ReadRef<'data>>(file: R, name: &str) -> bool {
        let mut symbols = Self::default();
        symbols.read_table(file, SHT_DYNSYM, |found| found == name.as_bytes());
        !symbols.is_empty()
    }

    /// Adds the symbols with wanted names from a symbol table, if the image has it.
    fn read_table<'data, R: ReadRef<'data>>(
        &mut self,
        file: R,
        kind: SectionType,
        wants: impl Fn(&[u8]) -> bool,
    ) -> Option<()> {
        let endian = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
        let sections = header.sections(endian, file).ok()?;
        let table = sections.symbols(endian, file, kind).ok()?;
        // Read as a whole, because large images have some 100,000 names.
        let names = sections.section(table.string_section()).ok()?;
        let names = names.data(endian, file).ok()?;
        for symbol in table.iter() {
            let svma = symbol.st_value(endian);
            if svma == 0 || self.by_name.len() == MAX_SYMBOLS {
                continue;
            }
            let name = name_at(names, symbol.st_name(endian));
            if wants(name) {
                let size = symbol.st_size(endian);
                let found = ImageSymbol { svma, size };
                self.by_name.entry(name.into()).or_insert(found);
            }
        }
        Some(())
    }

    /// Reads the constant that tells the runtime's version, if the file's name does not tell it.
    pub fn find_version<'data, R: ReadRef<'data>>(&mut self, file: R, name: &str) {
        let svma = self.get(name).map(|symbol| symbol.svma);
        self.version = svma.and_then(|svma| word_at(file, svma));
    }

    /// Returns the [found version](Self::find_version), as the runtime encodes it.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    /// Finds the parts of a function that the compiler split off, and that have no symbol because
    /// the image is stripped. Reads the whole file.
    pub fn find_parts<'data, R: ReadRef<'data>>(&mut self, file: R, name: &str) {
        let is_part = |part: &[u8]| part.starts_with(name.as_bytes()) && part.len() > name.len();
        let Some(function) = self.get(name) else {
            return;
        };
        if function.size > MAX_SPLIT || self.by_name.keys().any(|part| is_part(part)) {
            return;
        }
        if let Ok(bytes) = file.len().and_then(|len| file.read_bytes_at(0, len)) {
            let end = function.svma.saturating_add(function.size);
            self.parts = split_parts(bytes, &(function.svma..end));
        }
    }

    /// Returns the stated addresses (SVMA) of the [found parts](Self::find_parts).
    #[must_use]
    pub fn parts(&self) -> &[Range<u64>] {
        &self.parts
    }

    /// Returns a symbol by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ImageSymbol> {
        self.by_name.get(name.as_bytes()).copied()
    }

    /// Iterates over the symbols, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], ImageSymbol)> {
        self.by_name.iter().map(|(name, symbol)| (&**name, *symbol))
    }

    /// Returns true without symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// Returns the initial word at a stated address (SVMA).
fn word_at<'data, R: ReadRef<'data>>(file: R, svma: u64) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let segments = header.program_headers(LittleEndian, file).ok()?;
    let offset = segments.iter().find_map(|segment| {
        let within = svma.checked_sub(segment.p_vaddr(LittleEndian))?;
        let is_in = within < segment.p_filesz(LittleEndian);
        let is_it = is_in && segment.p_type(LittleEndian) == PT_LOAD;
        segment
            .p_offset(LittleEndian)
            .checked_add(within)
            .filter(|_| is_it)
    })?;
    let bytes = file.read_bytes_at(offset, 8).ok()?;
    bytes.first_chunk().copied().map(u64::from_le_bytes)
}

/// Returns the name at an offset in a string table; empty outside.
fn name_at(names: &[u8], offset: u32) -> &[u8] {
    let from = usize::try_from(offset).ok().and_then(|at| names.get(at..));
    let end = |name: &[u8]| name.iter().position(|byte| *byte == 0);
    from.and_then(|name| name.get(..end(name)?))
        .unwrap_or_default()
}

impl<'n> FromIterator<(&'n str, ImageSymbol)> for ImageSymbols {
    fn from_iter<I: IntoIterator<Item = (&'n str, ImageSymbol)>>(symbols: I) -> Self {
        let own = |(name, symbol): (&str, ImageSymbol)| (name.as_bytes().into(), symbol);
        Self {
            by_name: symbols.into_iter().map(own).collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn version_of_a_program_is_read_from_its_file() {
        let folder = std::env::temp_dir().join(format!("symbols-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, library) = (folder.join("a.c"), folder.join("a.so"));
        let text =
            "const unsigned long version = 0x030b02f0; static int own; int *get() { return &own; }";
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-o"]).arg(&library);
        assert!(command.arg(&source).status().unwrap().success());
        let bytes = std::fs::read(&library).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let mut symbols = ImageSymbols::read(&*bytes, |name| name == b"version", |_| false);
        symbols.find_version(&*bytes, "version");
        assert_eq!(symbols.version(), Some(0x030b_02f0));
        assert!(ImageSymbols::is_exported(&*bytes, "get"));
        assert!(!ImageSymbols::is_exported(&*bytes, "own"));
        assert!(!ImageSymbols::is_exported(&b"no image"[..], "get"));
    }
}
