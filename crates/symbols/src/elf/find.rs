//! Reverse lookup: from a function name to the file offset of its code.
//!
//! The lookup table keeps one name per address, but `malloc` and `__libc_malloc` are one function.

use super::ElfError;
use crate::demangle::{self, Style};
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

/// Cause for not finding the code of a function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The file cannot be parsed.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The file contains no symbols.
    #[error("it has no symbols")]
    NoSymbols,
    /// No function has this name.
    #[error(
        "it has no function of this name; `nm` and `nm -D` list them, and a stripped program has \
         only exported ones"
    )]
    NotFound,
    /// Several functions have this name.
    #[error("several functions have this name, at file offsets {}", offsets(.0))]
    Ambiguous(Vec<u64>),
}

fn offsets(offsets: &[u64]) -> String {
    let shown: Vec<String> = offsets
        .iter()
        .take(8)
        .map(|at| format!("{at:#x}"))
        .collect();
    shown.join(", ")
}

/// Returns the file offset of a function's code, as uprobes need it.
///
/// Searches for a symbol `name` without version, including local ones, then for a demangled name
/// without parameters.
///
/// # Errors
/// [`FindError`].
pub fn function_offset(data: &[u8], name: &str) -> Result<u64, FindError> {
    match data.get(..5) {
        Some(&[0x7f, b'E', b'L', b'F', 1]) => find::<elf::FileHeader32<Endianness>>(data, name),
        Some(&[0x7f, b'E', b'L', b'F', 2]) => find::<elf::FileHeader64<Endianness>>(data, name),
        _ => Err(ElfError::NotElf.into()),
    }
}

fn find<E: FileHeader<Endian = Endianness>>(data: &[u8], name: &str) -> Result<u64, FindError> {
    let damaged = |e: object::read::Error| ElfError::Damaged(e.to_string().into());
    let header = E::parse(data).map_err(|_| ElfError::NotElf)?;
    let endian = header.endian().map_err(|_| ElfError::NotElf)?;
    let segments = header.program_headers(endian, data).map_err(damaged)?;
    let sections = header.sections(endian, data).map_err(damaged)?;
    // The lowest bit of an ARM function's address selects the instruction set.
    let mask = match header.e_machine(endian) {
        elf::EM_ARM => !1,
        _ => u64::MAX,
    };
    let offset_of = |svma: u64| {
        segments.iter().find_map(|segment| {
            let inside = svma.checked_sub(segment.p_vaddr(endian).into())?;
            let code = segment.p_type(endian) == elf::PT_LOAD
                && segment.p_flags(endian).contains(elf::PF_X);
            (code && inside < segment.p_filesz(endian).into())
                .then(|| segment.p_offset(endian).into().checked_add(inside))?
        })
    };
    let (mut exact, mut demangled) = (Vec::new(), Vec::new());
    let mut any = false;
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let Ok(table) = sections.symbols(endian, data, kind) else {
            continue;
        };
        for symbol in table.iter() {
            let of_code = matches!(
                symbol.st_type(),
                elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE
            );
            if !of_code || symbol.is_undefined(endian) {
                continue;
            }
            let Ok(raw) = symbol.name(endian, table.strings()) else {
                continue;
            };
            any = true;
            let raw = match raw.first() {
                // In names of Crystal, `@` stands before a class.
                Some(b'*') => raw,
                _ => raw.split(|b| *b == b'@').next().unwrap_or_default(),
            };
            let found = if raw == name.as_bytes() {
                &mut exact
            } else if may_be_demangled(raw, name)
                && demangle::demangle_bytes(raw, Style::NoParameters) == name
            {
                &mut demangled
            } else {
                continue;
            };
            found.extend(offset_of(symbol.st_value(endian).into() & mask));
        }
    }
    let mut found = if exact.is_empty() { demangled } else { exact };
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [offset] => Ok(offset),
        [] if !any => Err(FindError::NoSymbols),
        [] => Err(FindError::NotFound),
        _ => Err(FindError::Ambiguous(found)),
    }
}

/// A mangled name contains the last component of the demangled one.
fn may_be_demangled(raw: &[u8], name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let word = last
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next();
    let word = word.unwrap_or_default().as_bytes();
    let prefixes = [&b"_Z"[..], b"_R", b"*"];
    let mangled = prefixes.iter().any(|prefix| raw.starts_with(prefix));
    mangled && (word.is_empty() || raw.windows(word.len()).any(|part| part == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Function to look up, protected from inlining.
    #[inline(never)]
    fn marker(n: u64) -> u64 {
        std::hint::black_box(n) + 1
    }

    #[test]
    fn this_program() {
        assert_eq!(marker(1), 2);
        let data = std::fs::read("/proc/self/exe").unwrap();
        let name = "rprof_symbols::elf::find::tests::marker";
        let offset = function_offset(&data, name).unwrap();
        let symbols = super::super::ElfSymbols::parse(&data).unwrap();
        let symbol = symbols.lookup_offset(offset).unwrap();
        assert_eq!(symbol.name(Style::NoParameters), name);
        assert_eq!(symbols.file_offset_to_svma(offset), Some(symbol.start()));
        assert_eq!(
            function_offset(&data, std::str::from_utf8(symbol.raw()).unwrap()),
            Ok(offset)
        );
        assert_eq!(function_offset(&data, "no::such"), Err(FindError::NotFound));
    }

    #[test]
    fn damage_is_no_panic() {
        let data = std::fs::read("/proc/self/exe").unwrap();
        for len in [0, 4, 5, 16, 63, 64, 100, 1000, 4096] {
            assert!(function_offset(&data[..len], "main").is_err());
        }
        assert_eq!(
            function_offset(b"#!/bin/sh\n", "main"),
            Err(FindError::Elf(ElfError::NotElf))
        );
    }
}
