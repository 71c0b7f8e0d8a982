//! [`needed_libraries`]: libraries that an ELF file loads.

use object::elf;
use object::read::elf::{Dyn, FileHeader};

/// Maximum number of names.
const MAX_NAMES: usize = 1_024;

/// Libraries of a dynamic section (ld.so(8)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeededLibraries {
    /// Names, such as `libc.so.6` (`DT_NEEDED`).
    pub names: Vec<Vec<u8>>,
    /// Folders that are searched first (`DT_RPATH`, `DT_RUNPATH`). They may begin with `$ORIGIN`.
    pub folders: Vec<Vec<u8>>,
}

/// Returns the libraries that a 64-bit ELF file needs; none for other files.
#[must_use]
pub fn needed_libraries(elf: &[u8]) -> NeededLibraries {
    read(elf).unwrap_or_default()
}

fn read(elf: &[u8]) -> Option<NeededLibraries> {
    let header = elf::FileHeader64::<object::Endianness>::parse(elf).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, elf).ok()?;
    let (entries, strings) = sections.dynamic(endian, elf).ok()??;
    let strings = sections.strings(endian, elf, strings).ok()?;
    let mut needed = NeededLibraries::default();
    for entry in entries.iter().take(MAX_NAMES) {
        let Ok(text) = entry.string(endian, strings) else {
            continue;
        };
        match entry.tag(endian) {
            elf::DT_NEEDED => needed.names.push(text.to_vec()),
            elf::DT_RPATH | elf::DT_RUNPATH => {
                let folders = text.split(|byte| *byte == b':').map(<[u8]>::to_vec);
                needed.folders.extend(folders);
            }
            _ => {}
        }
    }
    Some(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_libraries_are_found_and_cut_files_give_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let names = needed_libraries(&own).names;
        let is_libc = |name: &Vec<u8>| name.starts_with(b"libc.so");
        assert!(names.iter().any(is_libc) || cfg!(target_env = "musl"));
        for cut in [0, 3, 64, 4096] {
            assert_eq!(needed_libraries(&own[..cut]), NeededLibraries::default());
        }
    }
}
