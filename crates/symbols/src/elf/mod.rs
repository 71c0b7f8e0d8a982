//! The symbol table of one ELF file.
//!
//! The choice of the symbol for an address follows `perf` (found by experiment with 6.1):
//!
//! - Functions, indirect functions and data objects count. So do untyped labels in sections with
//!   "text" or "data" in their names. Symbols of unloaded sections and absolute symbols do not
//!   count.
//! - `.symtab` comes first, then `.dynsym`.
//! - A symbol of size zero extends to the next symbol.
//! - Among several symbols at one address, `choose.rs` picks one.
//! - Addresses past the end of a symbol are unnamed.
//! - PLT entries are named after their target function, `foo@plt`.
//! - The sections of a debug file count, although they have no contents (`SHT_NOBITS`).
//!
//! Deviations from errors of `perf` 6.1:
//!
//! - `perf` may miss the part of a function *after* a nested symbol, depending on the balance of
//!   its tree. This crate finds it. For overlapping symbols, this crate picks the last to start,
//!   and `perf` either.
//! - For code behind an untyped label without size in a function, `perf` picks the label or the
//!   function, depending on the balance of its tree. Here the function names it, as in LLVM's and
//!   GNU's tools.
//! - `perf` extends `_init` (size zero) over `.plt`. Here it ends with its section.
//! - `perf` counts PLT entries to match relocations, which misnames `.plt.sec` and leaves
//!   `.plt.got` unnamed. This crate decodes each jump. The PLT header is `.plt`, as in later
//!   versions of `perf`.
//! - `perf` picks the longest of several names, such as the obsolete alias `cfree@GLIBC_2.2.5` for
//!   `free`. Here old versions come last.
//! - `perf` shows `foo@@GLIBC_2.2`, which some older linkers wrote into `.symtab`. This crate
//!   removes the version.

mod choose;
mod compiler;
mod file;
mod find;
mod plt;
mod read;
mod strings;
mod table;

pub(crate) use compiler::is_by_rustc;
pub use compiler::{has_generated_code, is_by_ghc};
pub use find::{FindError, function_offset};

use crate::demangle::{self, Language, Style};
use read::Tables;
use rprof_image::{BuildId, Segments};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::OnceLock;
use strings::Strings;
use table::{Entry, Origin};

/// Error of reading [`ElfSymbols`] from a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The bytes do not start with an ELF header of a known class and byte order.
    #[error("not an ELF file")]
    NotElf,
    /// An object file or core dump: its addresses do not refer to mapped code.
    #[error("ELF file of type {0}, neither a program nor a library")]
    NotLoadable(u16),
    /// The headers contradict the length of the file.
    #[error("damaged ELF file: {0}")]
    Damaged(Box<str>),
}

/// Symbol table of an ELF image, 16 bytes per symbol.
///
/// `D` holds the bytes of the file: `&[u8]`, a `Vec<u8>`, a memory map. Names stay there, and are
/// demangled on demand.
#[derive(Debug)]
pub struct ElfSymbols<D> {
    data: D,
    build_id: Option<BuildId>,
    segments: Segments,
    strings: Strings,
    has_symtab: bool,
    /// Evidence for each [`Language`], searched on first use.
    evidence: [OnceLock<bool>; Language::ALL.len()],
    /// Table of all symbols, built when `some` does not suffice.
    all: OnceLock<Tables>,
    /// Table of the symbols relevant for some addresses, and these addresses.
    some: OnceLock<Option<(Vec<u64>, Tables)>>,
}

impl<D: AsRef<[u8]>> ElfSymbols<D> {
    /// Parses headers and build-id. Symbols are parsed on first use.
    ///
    /// Skips damaged symbols and tables. Time and memory are linear in the length of `data` (with a
    /// logarithm for sorting), for any contents.
    ///
    /// # Errors
    ///
    /// See [`ElfError`].
    pub fn parse(data: D) -> Result<Self, ElfError> {
        let parts = read::parse(data.as_ref())?;
        Ok(Self {
            data,
            build_id: parts.build_id,
            segments: parts.segments,
            strings: parts.strings,
            has_symtab: parts.has_symtab,
            evidence: Default::default(),
            all: OnceLock::new(),
            some: OnceLock::new(),
        })
    }

    /// Returns true if the names of symbols show that the file has code of a language.
    pub(crate) fn has_evidence(&self, language: Language) -> bool {
        let find = || {
            let names = [&self.strings.symtab, &self.strings.dynsym];
            names.into_iter().any(|range| {
                let names = self.data.as_ref().get(range.clone()).unwrap_or_default();
                memchr::memmem::find(names, language.evidence()).is_some()
            })
        };
        *self.evidence[language as usize].get_or_init(find)
    }

    /// Announces sorted addresses. For a few addresses of a large file, this avoids the table of
    /// all symbols.
    pub(crate) fn prepare(&self, svmas: &[u64]) {
        if self.all.get().is_none() {
            self.some.get_or_init(|| {
                let tables = read::tables(self.data.as_ref(), &self.strings, Some(svmas))?;
                Some((svmas.to_vec(), tables))
            });
        }
    }

    fn all(&self) -> &Tables {
        self.all.get_or_init(|| {
            read::tables(self.data.as_ref(), &self.strings, None).unwrap_or_default()
        })
    }

    fn tables(&self, svma: u64) -> &Tables {
        match self.some.get() {
            Some(Some((svmas, tables))) if svmas.binary_search(&svma).is_ok() => tables,
            _ => self.all(),
        }
    }

    pub(crate) fn data(&self) -> &D {
        &self.data
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Returns up to `len` bytes at an SVMA, fewer at the end of the segment's file part.
    pub(crate) fn code(&self, svma: u64, len: u64) -> Option<&[u8]> {
        let (offset, left) = self.segments.offset_of_svma(svma)?;
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len.min(left)).ok()?)?;
        let bytes = self.data.as_ref();
        let code = bytes.get(start..end.min(bytes.len()))?;
        // Recordings store some images with zeros instead of code.
        code.iter().any(|byte| *byte != 0).then_some(code)
    }

    pub(crate) fn is_code(&self, svma: u64) -> bool {
        self.segments.is_code(svma)
    }

    pub(crate) fn machine(&self) -> u16 {
        let header = self.data.as_ref().get(..20).unwrap_or_default();
        match (header.get(5), header.get(18..20)) {
            (Some(2), Some(&[high, low])) => u16::from_be_bytes([high, low]),
            (_, Some(&[low, high])) => u16::from_le_bytes([low, high]),
            _ => 0,
        }
    }

    /// Returns the build-id of the file, if the linker wrote one.
    #[must_use]
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Returns true if the file has a full symbol table (`.symtab`), not just exports.
    #[must_use]
    pub fn has_symtab(&self) -> bool {
        self.has_symtab
    }

    /// Returns the SVMA of the byte at a file offset. `None` if it is not loaded.
    ///
    /// Segments are mapped in whole pages, so an offset on a shared page counts as loaded.
    #[must_use]
    pub fn file_offset_to_svma(&self, offset: u64) -> Option<u64> {
        self.segments.svma(offset)
    }

    /// Returns true if a segment covers this SVMA in memory, even without bytes in the file
    /// (`.bss`).
    #[must_use]
    pub fn contains_svma(&self, svma: u64) -> bool {
        self.segments.contains(svma)
    }

    /// Returns the symbol that covers this SVMA.
    #[must_use]
    pub fn lookup_svma(&self, svma: u64) -> Option<ElfSymbol<'_>> {
        let found = self.tables(svma).table.lookup(svma);
        found.map(|entry| self.symbol(entry))
    }

    /// Returns the symbol that covers the byte at this file offset.
    #[must_use]
    pub fn lookup_offset(&self, offset: u64) -> Option<ElfSymbol<'_>> {
        self.lookup_svma(self.file_offset_to_svma(offset)?)
    }

    /// Returns the SVMAs where the result of a lookup may change, in sorted or nearly sorted runs.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        let Tables { table, indirect } = self.all();
        // An outer symbol resumes where a nested one ends.
        let starts = table.entries().iter().map(Entry::start);
        let ends = table.entries().iter().map(Entry::end);
        let plt = indirect.iter();
        let plt = plt.flat_map(|e| [e.start, e.start.saturating_add(e.size)]);
        let segments = self.segments.bounds();
        starts.chain(ends).chain(plt).chain(segments)
    }

    /// Converts sorted SVMAs to file offsets, and adds the boundaries of segments. `None` for more
    /// than `most`.
    pub(crate) fn offset_bounds(&self, svmas: &[u64], most: usize) -> Option<Vec<u64>> {
        self.segments.offset_bounds(svmas, most)
    }

    /// Returns all symbols that name an address, ascending by start, without duplicates.
    pub fn iter(&self) -> impl Iterator<Item = ElfSymbol<'_>> {
        let entries = self.all().table.entries();
        entries.iter().map(|entry| self.symbol(entry))
    }

    /// Returns the source files of the local symbols that start at sorted SVMAs: the paths of the
    /// compiler's command line, or only the file names.
    pub(crate) fn source_files(&self, starts: &[u64]) -> FxHashMap<u64, Box<str>> {
        read::source_files(self.data.as_ref(), starts)
    }

    /// Returns the version of each exported symbol that starts at sorted SVMAs; `None` for the
    /// current one.
    pub(crate) fn versions_at(&self, starts: &[u64]) -> FxHashMap<u64, Option<Box<str>>> {
        read::versions_at(self.data.as_ref(), starts)
    }

    /// Returns the PLT entry or PLT header at an SVMA. Entries of indirect functions are named
    /// after their resolver in `debug`, which has more names than a stripped image.
    pub(crate) fn lookup_plt<'a, T: AsRef<[u8]>>(
        &'a self,
        svma: u64,
        debug: &'a ElfSymbols<T>,
    ) -> Option<ElfSymbol<'a>> {
        let indirect = &self.tables(svma).indirect;
        let after = indirect.partition_point(|entry| entry.start <= svma);
        let entry = after.checked_sub(1).map(|index| indirect[index]);
        let resolver = entry
            .filter(|entry| svma - entry.start < entry.size)
            .and_then(|entry| Some((entry, debug.lookup_svma(entry.resolver)?)));
        match resolver {
            Some((entry, resolver)) => Some(ElfSymbol {
                raw: resolver.raw,
                start: entry.start,
                size: entry.size,
                origin: Origin::PltSymtab,
            }),
            None => self
                .lookup_svma(svma)
                .filter(|found| found.is_plt() || found.origin == Origin::PltHeader),
        }
    }

    fn symbol(&self, entry: &Entry) -> ElfSymbol<'_> {
        let origin = entry.origin();
        let raw = self.strings.get(self.data.as_ref(), origin, entry.name());
        ElfSymbol {
            raw,
            start: entry.start(),
            size: entry.size(),
            origin,
        }
    }
}

/// Symbol of an [`ElfSymbols`] table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfSymbol<'a> {
    raw: &'a [u8],
    start: u64,
    size: u64,
    origin: Origin,
}

impl<'a> ElfSymbol<'a> {
    /// Returns the linkage name from the file, with its symbol version. For a PLT entry, the name
    /// of the target function; for the PLT header, `.plt`.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Returns the display name: demangled, without symbol version, with `@plt` for PLT entries.
    #[must_use]
    pub fn name(&self, style: Style) -> Cow<'a, str> {
        self.name_in(style, &|_| false)
    }

    /// Returns the display name, also in the languages with `has_evidence`.
    pub(crate) fn name_in(
        &self,
        style: Style,
        has_evidence: &dyn Fn(Language) -> bool,
    ) -> Cow<'a, str> {
        let name = demangle::demangle_bytes_in(self.raw, style, has_evidence);
        if self.is_plt() {
            Cow::Owned(format!("{name}@plt"))
        } else {
            name
        }
    }

    /// Returns the first SVMA.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the length in bytes, from the file or extended to the next symbol; at most 512 MiB.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true for a PLT entry: a jump to a function of another image, or to an indirect
    /// function.
    #[must_use]
    pub fn is_plt(&self) -> bool {
        self.origin.is_plt()
    }
}

#[cfg(test)]
mod tests;
