//! [`ElfImage`]: an ELF image together with the debug file that completes it.

use crate::debug_file::DebugFiles;
use crate::elf::{ElfError, ElfSymbol, ElfSymbols};
use crate::image::ImageKey;
use crate::vdso::vdso_image;
use crate::{BuildId, Reason, file};
use memmap2::Mmap;
use std::path::Path;
use std::sync::OnceLock;

/// An image, and once a symbol is asked for and it has no `.symtab`, its debug file.
///
/// The image translates file offsets to SVMAs; both have the same SVMAs. As in `perf`
/// (found by experiment with 6.1), a debug file takes the place of the image's own
/// symbols, `.dynsym` included, and only PLT entries still come from the image.
///
/// Where `perf` 6.1 is wrong, this is not: if the image has no `.dynsym` (a static program),
/// `perf` translates with the program headers of the debug file, and names other functions.
#[derive(Debug)]
pub(crate) struct ElfImage<D> {
    image: ElfSymbols<D>,
    /// Looked for when first needed: recorders ask images for nothing but their build-id.
    debug: OnceLock<Option<ElfSymbols<Mmap>>>,
}

impl ElfImage<Mmap> {
    /// Opens the file, or what the cache of `perf` has kept of it, if it is the right one.
    pub(crate) fn open(key: &ImageKey, path: &Path, places: &DebugFiles) -> Result<Self, Reason> {
        let image = open_file(key, path).or_else(|reason| {
            let kept = key.build_id().and_then(|build_id| places.image(build_id));
            kept.ok_or(reason)
        })?;
        Ok(Self {
            image,
            debug: OnceLock::new(),
        })
    }
}

impl ElfImage<Vec<u8>> {
    /// This process's vdso, if it is the right one. No debug file is looked for.
    pub(crate) fn open_vdso(key: &ImageKey) -> Result<Self, Reason> {
        let bytes = vdso_image().ok_or(Reason::ForeignVdso)?;
        let image = ElfSymbols::parse(bytes).map_err(|_| Reason::ForeignVdso)?;
        check(key, image.build_id(), Reason::ForeignVdso)?;
        Ok(Self {
            image,
            debug: OnceLock::from(None),
        })
    }
}

impl<D: AsRef<[u8]>> ElfImage<D> {
    /// The build-id of the image.
    pub(crate) fn build_id(&self) -> Option<&BuildId> {
        self.image.build_id()
    }

    /// The symbol at a file offset, and how far into it the offset lies.
    pub(crate) fn lookup(
        &self,
        offset: u64,
        places: &DebugFiles,
    ) -> Result<(ElfSymbol<'_>, u64), Reason> {
        let svma = self
            .image
            .file_offset_to_svma(offset)
            .ok_or(Reason::OutsideImage)?;
        let debug = self.debug(places);
        let found = match debug {
            None => self.image.lookup_svma(svma),
            Some(debug) => {
                // As in one table: the last to start, and at the same start the symbol.
                match (debug.lookup_svma(svma), self.image.lookup_plt(svma, debug)) {
                    (Some(found), Some(entry)) if entry.start() > found.start() => Some(entry),
                    (found, entry) => found.or(entry),
                }
            }
        };
        if let Some(symbol) = found {
            return Ok((symbol, svma - symbol.start()));
        }
        Err(if !self.image.contains_svma(svma) {
            Reason::OutsideImage
        } else if debug.is_some() || self.image.has_symtab() {
            Reason::NoSymbolAtAddress
        } else {
            Reason::Stripped
        })
    }

    fn debug(&self, places: &DebugFiles) -> Option<&ElfSymbols<Mmap>> {
        let find = || {
            let build_id = self.image.build_id().filter(|_| !self.image.has_symtab())?;
            places.symbols(build_id)
        };
        self.debug.get_or_init(find).as_ref()
    }
}

fn open_file(key: &ImageKey, path: &Path) -> Result<ElfSymbols<Mmap>, Reason> {
    let file = file::open(path)?;
    if key.build_id().is_none() && key.inode().is_some_and(|inode| inode != file.inode) {
        return Err(Reason::FileChanged);
    }
    let image = ElfSymbols::parse(file.bytes).map_err(|error| match error {
        ElfError::NotElf | ElfError::NotLoadable(_) => Reason::NotAnElf,
        ElfError::Damaged(_) => Reason::DamagedElf,
    })?;
    check(key, image.build_id(), Reason::BuildIdMismatch)?;
    Ok(image)
}

/// Wrong symbols are worse than none: where a build-id is expected, a file without one
/// is another file.
pub(crate) fn check(
    key: &ImageKey,
    found: Option<&BuildId>,
    otherwise: Reason,
) -> Result<(), Reason> {
    match (key.build_id(), found) {
        (None, _) => Ok(()),
        (Some(expected), Some(found)) if expected.matches(found) => Ok(()),
        _ => Err(otherwise),
    }
}
