//! [`ImageSymbols`]: the symbols of an image that a runtime needs.

use std::ops::Range;

use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{FileHeader, SectionHeader, Sym};
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
        let endian = LittleEndian;
        let Ok(header) = FileHeader64::<LittleEndian>::parse(file) else {
            return symbols;
        };
        let Ok(sections) = header.sections(endian, file) else {
            return symbols;
        };
        for kind in [SHT_DYNSYM, SHT_SYMTAB] {
            if has_all(&symbols) {
                break;
            }
            let Ok(table) = sections.symbols(endian, file, kind) else {
                continue;
            };
            // Read as a whole, because large images have some 100,000 names.
            let names = sections.section(table.string_section());
            let Ok(names) = names.and_then(|section| section.data(endian, file)) else {
                continue;
            };
            for symbol in table.iter() {
                let svma = symbol.st_value(endian);
                if svma == 0 || symbols.by_name.len() == MAX_SYMBOLS {
                    continue;
                }
                let name = name_at(names, symbol.st_name(endian));
                if wants(name) {
                    let size = symbol.st_size(endian);
                    let found = ImageSymbol { svma, size };
                    symbols.by_name.entry(name.into()).or_insert(found);
                }
            }
        }
        symbols
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
            parts: Vec::new(),
        }
    }
}
