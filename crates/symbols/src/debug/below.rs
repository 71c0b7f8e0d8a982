//! [`RootFiles`]: finds ELF files below another root by build-id.
//!
//! Binaries copied to another machine often lose their path, so the root may be a flat folder or a
//! tree of build artefacts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadRef};
use rprof_image::{BuildId, FileReader, RegularFile, build_id_of};

/// Maximum number of folder entries to visit. A whole system has more.
const MAX_ENTRIES: usize = 20_000;

const MAX_DEPTH: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct RootFiles {
    found: OnceLock<HashMap<BuildId, Vec<PathBuf>>>,
}

impl RootFiles {
    /// Returns the files with this build-id, images before debug files, then by path.
    pub(super) fn with(&self, root: &Path, build_id: &BuildId) -> &[PathBuf] {
        let found = self.found.get_or_init(|| search(root));
        found.get(build_id).map_or(&[], Vec::as_slice)
    }
}

fn search(root: &Path) -> HashMap<BuildId, Vec<PathBuf>> {
    let mut found: HashMap<BuildId, Vec<PathBuf>> = HashMap::new();
    // Root `/` is this machine, where paths suffice.
    if root.parent().is_none() {
        return found;
    }
    let mut folders = vec![(root.to_path_buf(), 0)];
    let mut left = MAX_ENTRIES;
    while let Some((folder, depth)) = folders.pop() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            if left == 0 {
                break;
            }
            left -= 1;
            // Type of the entry itself: a symbolic link may lead anywhere.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth < MAX_DEPTH {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file()
                && let Ok(file) = RegularFile::open(&entry.path())
                && let Some(id) = build_id_of(&FileReader::new(&file))
            {
                found.entry(id).or_default().push(entry.path());
            }
        }
    }
    for paths in found.values_mut() {
        paths.sort_by_cached_key(|path| {
            let file = RegularFile::open(path);
            let has_code = file.is_ok_and(|file| has_code(&FileReader::new(&file)));
            (!has_code, path.clone())
        });
    }
    found
}

/// Returns false for a debug file, whose code sections are `SHT_NOBITS`.
pub(super) fn has_code<'data>(data: impl ReadRef<'data>) -> bool {
    match data.read_bytes_at(0, 5) {
        Ok([0x7f, b'E', b'L', b'F', 1]) => has_code_of_class::<elf::FileHeader32<_>>(data),
        Ok([0x7f, b'E', b'L', b'F', 2]) => has_code_of_class::<elf::FileHeader64<_>>(data),
        _ => false,
    }
}

fn has_code_of_class<'data, E: FileHeader<Endian = Endianness>>(data: impl ReadRef<'data>) -> bool {
    let sections = E::parse(data).and_then(|header| {
        let endian = header.endian()?;
        Ok((endian, header.sections(endian, data)?))
    });
    let Ok((endian, sections)) = sections else {
        return false;
    };
    let is_code =
        |section: &&E::SectionHeader| section.sh_flags(endian).contains(elf::SHF_EXECINSTR);
    let mut code = sections.iter().filter(is_code).peekable();
    // Without section headers, segments have the code.
    code.peek().is_none() || code.any(|section| section.sh_type(endian) != elf::SHT_NOBITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn files_are_found_by_build_id_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("deep/deeper")).unwrap();
        std::fs::write(path("text"), "no ELF").unwrap();
        std::fs::copy("/proc/self/exe", path("deep/deeper/copy")).unwrap();
        std::os::unix::fs::symlink("/proc/self/exe", path("link")).unwrap();
        let me = std::fs::read("/proc/self/exe").unwrap();
        let id = build_id_of(&me[..]).expect("built with a build-id");
        let files = RootFiles::default();
        assert_eq!(files.with(folder.path(), &id), [path("deep/deeper/copy")]);
        let other = BuildId::new(&[1, 2, 3]).unwrap();
        assert!(files.with(folder.path(), &other).is_empty());
        assert!(RootFiles::default().with(Path::new("/"), &id).is_empty());
        let made = (Command::new("objcopy").arg("--only-keep-debug"))
            .args([path("deep/deeper/copy"), path("a")])
            .status();
        if made.is_ok_and(|status| status.success()) {
            let expected = [path("deep/deeper/copy"), path("a")];
            assert_eq!(RootFiles::default().with(folder.path(), &id), expected);
            let debug = std::fs::read(path("a")).unwrap();
            assert!(has_code(&me[..]) && !has_code(&debug[..]));
        }
    }
}
