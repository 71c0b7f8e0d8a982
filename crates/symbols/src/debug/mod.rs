//! Search for the debug files of an image: symbols, debug information, supplementary files of
//! `dwz`.
//!
//! The first match wins, in this order:
//!
//! 1. the image itself;
//! 2. by build-id, `DIR/.build-id/xx/yyyy.debug` in the debug folders, or anywhere below another
//!    root;
//! 3. by the name in `.gnu_debuglink`, beside the image, in `.debug`, and in the debug folders;
//! 4. by build-id in the cache of `perf`;
//! 5. from debuginfod servers, if enabled;
//! 6. `.gnu_debugdata`, which contains symbols only.
//!
//! A file matches if it has the build-id of the image. If one of the two has none, the CRC-32 in
//! `.gnu_debuglink` decides. File names in an image are only looked up in these folders.
//!
//! The sections of a debug file (`objcopy --only-keep-debug`, `eu-strip -f`) have addresses, but no
//! contents (`SHT_NOBITS`) and meaningless file offsets. So lookups use SVMAs, and only the image
//! translates offsets: see [`crate::elf_image`].

mod below;
mod links;
mod mini;
mod places;

pub(crate) use links::Links;
pub(crate) use mini::{MiniSymbols, symbols as mini_symbols};
pub(crate) use places::without_dots;

use crate::dwarf::{DwarfFile, SplitFiles};
use crate::elf::ElfSymbols;
use crate::memory::MemoryLimits;
use below::{RootFiles, has_code};
use rprof_image::{
    BuildId, ImageFile, LastingPlaces, OpenError, RegularFile, RemoteFile, RemoteFiles, RemoteKind,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum length for the CRC-32 check, in bytes: it takes a second. Longer debug files, as of
/// browsers, have a build-id.
const MAX_CRC: usize = 2 << 30;

#[derive(Debug, Clone)]
pub(crate) struct DebugFiles {
    /// Folders that contain a `.build-id` folder.
    pub(crate) dirs: Vec<PathBuf>,
    /// Cache filled by `perf record`. Read only.
    pub(crate) perf_cache: Option<PathBuf>,
    /// Folder that replaces `/` in paths of images and debug files.
    pub(crate) root: Option<PathBuf>,
    pub(crate) root_files: Arc<RootFiles>,
    pub(crate) memory: MemoryLimits,
    pub(crate) remote: Option<Arc<dyn RemoteFiles>>,
    /// If set, files in other places are not kept open: see
    /// [`SymbolizerBuilder::releases_files`](crate::SymbolizerBuilder::releases_files).
    pub(crate) lasting: Option<Arc<LastingPlaces>>,
}

/// Maximum length of a file to copy instead of map, in bytes. A longer file is reopened each time.
const MAX_COPY: u64 = 16 << 20;

impl Default for DebugFiles {
    fn default() -> Self {
        let home = std::env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
        Self {
            dirs: vec![PathBuf::from("/usr/lib/debug")],
            perf_cache: home.map(|home| Path::new(&home).join(".debug")),
            root: None,
            root_files: Arc::default(),
            memory: MemoryLimits::default(),
            remote: None,
            lasting: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct DebugFile {
    pub(crate) path: PathBuf,
    pub(crate) symbols: ElfSymbols<ImageFile>,
    pub(crate) links: Links,
}

#[derive(Debug)]
pub(crate) struct SharedFile {
    pub(crate) file: ImageFile,
    pub(crate) dwarf: DwarfFile,
}

impl DebugFiles {
    /// Returns the path on this machine of a recorded path. `..` cannot leave another root.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        let Some(root) = &self.root else {
            return path.to_path_buf();
        };
        let plain = without_dots(path);
        let inside = plain
            .as_deref()
            .and_then(|path| path.strip_prefix("/").ok());
        inside.map_or_else(|| path.to_path_buf(), |inside| root.join(inside))
    }

    /// Opens an image. Copies it if it may not stay mapped and is short.
    pub(crate) fn open(&self, path: &Path) -> Result<ImageFile, OpenError> {
        let file = RegularFile::open(path)?;
        match self.may_keep(path) || file.metadata().len() > MAX_COPY {
            true => ImageFile::read(&file),
            false => ImageFile::copy(&file),
        }
    }

    pub(crate) fn may_keep(&self, path: &Path) -> bool {
        let Some(lasting) = &self.lasting else {
            return true;
        };
        std::fs::metadata(path).is_ok_and(|metadata| lasting.has(path, &metadata))
    }

    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        if self.root.is_some() {
            dirs.extend(self.dirs.iter().map(|dir| self.place(dir)));
        }
        dirs.extend(self.dirs.iter().cloned());
        dirs
    }

    /// Finds the debug file of an image. Sets `too_long` if a candidate is too long to verify.
    pub(crate) fn debug_file(
        &self,
        image: Option<&Path>,
        build_id: Option<&BuildId>,
        links: &Links,
        too_long: &AtomicBool,
    ) -> Option<DebugFile> {
        let dirs = self.dirs();
        let useful = |file: &DebugFile| file.symbols.has_symtab() || file.links.has_dwarf;
        let by_id = |paths: Vec<PathBuf>| {
            let id = build_id?;
            let open = |path: PathBuf| DebugFile::open(path, |file, _| file.has(id));
            paths.into_iter().filter_map(open).find(useful)
        };
        let in_dirs = build_id.map_or_else(Vec::new, |id| places::by_build_id(&dirs, id));
        let in_cache = build_id.map_or_else(Vec::new, |id| {
            places::in_perf_cache(self.perf_cache.as_deref(), id)
        });
        by_id(in_dirs)
            .or_else(|| by_id(self.below_root(build_id?)))
            .or_else(|| {
                let (image, (name, crc)) = (image?, links.debug.as_ref()?);
                let root = self.root.as_deref();
                let right =
                    |file: &DebugFile, bytes: &[u8]| match (build_id, file.symbols.build_id()) {
                        (Some(ours), Some(theirs)) => ours.matches(theirs),
                        // A hole makes a long file for free.
                        _ if bytes.len() > MAX_CRC => {
                            too_long.store(true, Ordering::Relaxed);
                            false
                        }
                        _ => crc32fast::hash(bytes) == *crc,
                    };
                places::by_name(&dirs, image, root, name)
                    .into_iter()
                    .filter_map(|path| DebugFile::open(path, right))
                    .find(useful)
            })
            .or_else(|| by_id(in_cache))
            .or_else(|| {
                let open = |path: &Path| {
                    let right =
                        |file: &DebugFile, _: &[u8]| build_id.is_some_and(|id| file.has(id));
                    DebugFile::open(path.to_owned(), right).filter(useful)
                };
                self.fetch(RemoteKind::DebugInfo, build_id?, image, open)
            })
    }

    /// Fetches a missing file. Stores it only if `open` accepts it.
    fn fetch<T>(
        &self,
        kind: RemoteKind,
        build_id: &BuildId,
        image: Option<&Path>,
        open: impl Fn(&Path) -> Option<T>,
    ) -> Option<T> {
        let wanted = RemoteFile {
            build_id,
            kind,
            image: image.unwrap_or(Path::new("[vdso]")),
        };
        let remote = self.remote.as_ref()?;
        let path = remote.fetch(&wanted, &|path| open(path).is_some())?;
        open(&path)
    }

    pub(crate) fn shared(&self, from: &Path, links: &Links) -> Option<SharedFile> {
        let (path, build_id) = links.shared.as_ref()?;
        let dirs = self.dirs();
        let stated = places::stated(&dirs, from, self.root.as_deref(), path);
        let open = |path: &Path| {
            let file = ImageFile::open(path).ok()?;
            if !links::shared_id(file.bytes())?.matches(build_id) {
                return None;
            }
            let memory = self.memory.of(&file);
            let dwarf = DwarfFile::find(file.bytes(), memory).ok()??;
            Some(SharedFile { file, dwarf })
        };
        stated
            .into_iter()
            .chain(places::by_build_id(&dirs, build_id))
            .find_map(|path| open(&path))
            .or_else(|| self.fetch(RemoteKind::DebugInfo, build_id, Some(from), open))
    }

    fn below_root(&self, build_id: &BuildId) -> Vec<PathBuf> {
        let root = self.root.as_deref();
        root.map_or_else(Vec::new, |root| {
            self.root_files.with(root, build_id).to_vec()
        })
    }

    /// Returns the search places for split DWARF files. Units of an image that `is_ours` may name
    /// any path.
    pub(crate) fn split_files(&self, images: Vec<PathBuf>, is_ours: bool) -> SplitFiles {
        SplitFiles::new(
            images,
            is_ours,
            self.root.clone(),
            self.dirs(),
            self.memory.clone(),
        )
    }

    /// Opens a copy of a missing or replaced image.
    pub(crate) fn image(&self, build_id: &BuildId, path: &Path) -> Option<ElfSymbols<ImageFile>> {
        let open = |path: &Path| {
            let symbols = ElfSymbols::parse(ImageFile::open(path).ok()?).ok()?;
            (symbols.build_id()?.matches(build_id)).then_some(symbols)
        };
        let below = self.below_root(build_id);
        let mut below = below.iter().filter_map(|path| open(path));
        let has_code = |symbols: &ElfSymbols<ImageFile>| has_code(symbols.bytes());
        if let Some(found) = below.find(has_code) {
            return Some(found);
        }
        let cache = self.perf_cache.as_deref();
        let kept = cache.and_then(|cache| places::image_in_perf_cache(cache, build_id));
        kept.and_then(|path| open(&path))
            .or_else(|| self.fetch(RemoteKind::Executable, build_id, Some(path), open))
    }
}

impl DebugFile {
    fn open(path: PathBuf, right: impl FnOnce(&Self, &[u8]) -> bool) -> Option<Self> {
        let symbols = ElfSymbols::parse(ImageFile::open(&path).ok()?).ok()?;
        let links = Links::read(symbols.bytes());
        let file = Self {
            path,
            symbols,
            links,
        };
        right(&file, file.symbols.bytes()).then_some(file)
    }

    fn has(&self, build_id: &BuildId) -> bool {
        (self.symbols.build_id()).is_some_and(|found| found.matches(build_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_images_do_not_lead_out_of_another_root() {
        let mut files = DebugFiles::default();
        let path = Path::new("/usr/../../../etc/x");
        assert_eq!(files.place(path), path, "as it stands, without one");
        files.root = Some("/sys/root".into());
        assert_eq!(files.place(path), Path::new("/sys/root/etc/x"));
        assert_eq!(
            files.place(Path::new("/bin/x")),
            Path::new("/sys/root/bin/x")
        );
    }
}
