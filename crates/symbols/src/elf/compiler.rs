//! Detects the compiler of an ELF file.

use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadRef};
use rprof_image::ImageFile;
use std::path::Path;

/// Maximum number of bytes to search. Each compiler adds a line.
const LIMIT: usize = 64 << 10;

/// Returns true if rustc compiled a part of the file. Stripping keeps the section.
pub(crate) fn is_by_rustc<'data>(data: impl ReadRef<'data>) -> bool {
    is_by(b"rustc version", data)
}

/// Bytes of the information that GHC's runtime prints for `+RTS --info`.
const GHC_RUNTIME: &[u8] = b"(\"GHC RTS\", \"YES\")";

/// Maximum size in bytes of the constants that are searched for it.
const MAX_CONSTANTS: usize = 64 << 20;

/// Returns true if GHC (Haskell) compiled a part of the ELF file. False if it is unreadable.
///
/// Distribution packages may lack `.comment`. Their programs contain GHC's runtime, and their libraries
/// have file names of GHC, `libHSPACKAGE-ghcVERSION.so`.
#[must_use]
pub fn is_by_ghc(path: &Path) -> bool {
    if path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(is_haskell_library)
    {
        return true;
    }
    let Ok(file) = ImageFile::open(path) else {
        return false;
    };
    is_by(b"GHC ", file.bytes()) || {
        let constants = section(b".rodata", file.bytes()).unwrap_or_default();
        let constants = &constants[..constants.len().min(MAX_CONSTANTS)];
        memchr::memmem::find(constants, GHC_RUNTIME).is_some()
    }
}

/// Returns true if a section of the ELF file is both data and code: the file is a dump of a process that
/// had generated or loaded code, as programs of GNU Common Lisp are. False if it is unreadable.
#[must_use]
pub fn has_generated_code(path: &Path) -> bool {
    let Ok(file) = ImageFile::open(path) else {
        return false;
    };
    let bytes = file.bytes();
    let found = || {
        let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let is_both = |section: &elf::SectionHeader64<Endianness>| {
            let flags = section.sh_flags(endian);
            flags.contains(elf::SHF_WRITE) && flags.contains(elf::SHF_EXECINSTR)
        };
        Some(sections.iter().any(is_both))
    };
    found().unwrap_or(false)
}

fn is_haskell_library(name: &str) -> bool {
    let compiler = name
        .strip_prefix("libHS")
        .and_then(|name| name.strip_suffix(".so"))
        .and_then(|name| name.rsplit_once("-ghc"));
    compiler.is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_by<'data>(name: &[u8], data: impl ReadRef<'data>) -> bool {
    let comment = section(b".comment", data).unwrap_or_default();
    let comment = &comment[..comment.len().min(LIMIT)];
    comment.windows(name.len()).any(|window| window == name)
}

fn section<'data>(name: &[u8], data: impl ReadRef<'data>) -> Option<&'data [u8]> {
    match data.read_bytes_at(0, 5) {
        Ok([0x7f, b'E', b'L', b'F', 1]) => section_of::<elf::FileHeader32<_>>(name, data),
        Ok([0x7f, b'E', b'L', b'F', 2]) => section_of::<elf::FileHeader64<_>>(name, data),
        _ => None,
    }
}

fn section_of<'data, E: FileHeader<Endian = Endianness>>(
    name: &[u8],
    data: impl ReadRef<'data>,
) -> Option<&'data [u8]> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (_, section) = sections.section_by_name(endian, name)?;
    section.data(endian, data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_haskell_packages_are_told_by_their_names() {
        for name in ["libHSbase-4.15.1.0-ghc9.0.2.so", "libHSrts_thr-ghc9.0.2.so"] {
            assert!(is_by_ghc(Path::new(name)), "{name}");
        }
        for name in [
            "libHS.so",
            "libHSbase.so",
            "libc-ghc9.so",
            "libHSbase-ghc.so",
        ] {
            assert!(!is_by_ghc(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn programs_of_ghc_and_dumps_are_detected_without_symbols() {
        rprof_testing::needs!(Tool("cc"));
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, assembly: &str| {
            let source = folder.path().join(name).with_extension("s");
            std::fs::write(&source, assembly).unwrap();
            let flags = ["-nostdlib", "-shared", "-Wl,-s"];
            rprof_testing::compile(folder.path(), "cc", &source, &flags)
        };
        let ghc = "[(\"GHC RTS\", \"YES\")".replace('"', "\\\"");
        let ghc = build("ghc", &format!(".section .rodata\n.ascii \"{ghc}\"\n"));
        let dump = build("dump", ".section .kept, \"awx\"\nret\n");
        let plain = build(
            "plain",
            ".section .rodata\n.ascii \"GHC RTS\"\n.text\nret\n",
        );
        let found = [&ghc, &dump, &plain].map(|path| (is_by_ghc(path), has_generated_code(path)));
        assert_eq!(found, [(true, false), (false, true), (false, false)]);
    }

    #[test]
    fn rust_programs_are_told_from_others() {
        let me = std::fs::read("/proc/self/exe").unwrap();
        assert!(is_by_rustc(&me[..]));
        assert!(!is_by_rustc(&b"\x7fELF\x02"[..]) && !is_by_rustc(&b"rustc version"[..]));
    }
}
