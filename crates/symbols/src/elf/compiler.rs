//! Detects the compiler of an ELF file from `.comment`.

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

/// Returns true if GHC (Haskell) compiled a part of the ELF file. False if it is unreadable.
///
/// Libraries of distribution packages may lack `.comment`. They are detected by the file names of
/// GHC, `libHSPACKAGE-ghcVERSION.so`.
#[must_use]
pub fn is_by_ghc(path: &Path) -> bool {
    if path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(is_haskell_library)
    {
        return true;
    }
    let file = ImageFile::open(path);
    file.is_ok_and(|file| is_by(b"GHC ", file.bytes()))
}

fn is_haskell_library(name: &str) -> bool {
    let compiler = name
        .strip_prefix("libHS")
        .and_then(|name| name.strip_suffix(".so"))
        .and_then(|name| name.rsplit_once("-ghc"));
    compiler.is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_by<'data>(name: &[u8], data: impl ReadRef<'data>) -> bool {
    let comment = match data.read_bytes_at(0, 5) {
        Ok([0x7f, b'E', b'L', b'F', 1]) => comment::<elf::FileHeader32<_>>(data),
        Ok([0x7f, b'E', b'L', b'F', 2]) => comment::<elf::FileHeader64<_>>(data),
        _ => None,
    };
    let comment = comment.unwrap_or_default();
    let comment = &comment[..comment.len().min(LIMIT)];
    comment.windows(name.len()).any(|window| window == name)
}

fn comment<'data, E: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> Option<&'data [u8]> {
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (_, section) = sections.section_by_name(endian, b".comment")?;
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
    fn rust_programs_are_told_from_others() {
        let me = std::fs::read("/proc/self/exe").unwrap();
        assert!(is_by_rustc(&me[..]));
        assert!(!is_by_rustc(&b"\x7fELF\x02"[..]) && !is_by_rustc(&b"rustc version"[..]));
    }
}
