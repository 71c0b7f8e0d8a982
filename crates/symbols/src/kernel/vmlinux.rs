//! A `vmlinux` given by the user: the kernel's ELF file, with symbols and often debug information.

use crate::elf_image::ElfImage;
use crate::{ElfSymbols, Reason};
use object::{Object, ObjectSection, ObjectSymbol};
use rprof_image::{BuildId, ImageFile};
use std::path::{Path, PathBuf};

/// Cause for not using a `vmlinux`. Names of another kernel, or at shifted addresses, would be
/// wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VmlinuxError {
    /// The file cannot be opened, or is no ELF file.
    #[error(
        "{}: {reason}; give an uncompressed vmlinux, such as the one in the kernel's debug package", path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Cause.
        reason: Reason,
    },
    /// The file belongs to another kernel.
    #[error("{} was not used: its build-id is {found}, the recorded kernel's {expected}", path.display())]
    Another {
        /// The file.
        path: PathBuf,
        /// Build-id of the file, or `none`.
        found: String,
        /// Build-id of the recorded kernel.
        expected: BuildId,
    },
    /// The recording does not identify its kernel.
    #[error("{} was not used: the recording has no kernel build-id to compare", path.display())]
    Unidentified {
        /// The file.
        path: PathBuf,
    },
    /// The recording lacks the kernel's start address (KASLR).
    #[error(
        "{} was not used: kernel addresses were hidden while recording, so its load address is \
         unknown; record as root, or with kernel.kptr_restrict=0", path.display()
    )]
    NoStart {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Debug)]
pub(crate) struct Vmlinux {
    pub(crate) image: ElfImage<ImageFile>,
    build_id: Option<BuildId>,
    text: u64,
    path: PathBuf,
}

impl Vmlinux {
    pub(crate) fn open(path: &Path) -> Result<Self, VmlinuxError> {
        let unusable = |reason| VmlinuxError::Unusable {
            path: path.to_owned(),
            reason,
        };
        let file = ImageFile::open(path).map_err(|error| unusable(error.into()))?;
        let text = text_start(file.bytes());
        let elf = ElfSymbols::parse(file).map_err(|_| unusable(Reason::NotAnElf))?;
        Ok(Self {
            build_id: elf.build_id().copied(),
            text: text.ok_or_else(|| unusable(Reason::Stripped))?,
            image: ElfImage::new(elf, Some(path.to_owned())),
            path: path.to_owned(),
        })
    }

    /// Returns the difference between SVMAs and recorded addresses of a kernel with its `_text` at
    /// `start`. Wraps.
    pub(crate) fn shift(
        &self,
        expected: Option<&BuildId>,
        start: Option<u64>,
    ) -> Result<u64, VmlinuxError> {
        let path = || self.path.clone();
        let expected = expected.ok_or_else(|| VmlinuxError::Unidentified { path: path() })?;
        let found = self.build_id.as_ref();
        if !found.is_some_and(|found| expected.matches(found)) {
            return Err(VmlinuxError::Another {
                path: path(),
                found: found.map_or("none".into(), BuildId::to_string),
                expected: *expected,
            });
        }
        let start = start.filter(|start| *start != 0);
        let start = start.ok_or_else(|| VmlinuxError::NoStart { path: path() })?;
        Ok(self.text.wrapping_sub(start))
    }
}

/// Returns the SVMA of `_text`, else `_stext`, else the section `.text`, which a stripped file
/// still has. Searches by name, as a lookup by address keeps one alias.
fn text_start(bytes: &[u8]) -> Option<u64> {
    let file = object::File::parse(bytes).ok()?;
    let start = |name: &str| {
        let mut symbols = file.symbols();
        Some(symbols.find(|symbol| symbol.name() == Ok(name))?.address())
    };
    let section = || Some(file.section_by_name(".text")?.address());
    start("_text").or_else(|| start("_stext")).or_else(section)
}
