//! Where the symbols of a stripped image may be kept, and the search for them.
//!
//! One function for each place; [`DebugFiles::symbols`] asks them in turn. Places are
//! made from the build-id alone, never from a path that an image states, and whatever
//! is found counts only if it has the same build-id.
//!
//! A debug file (`objcopy --only-keep-debug`, `eu-strip -f`) has the sections of its image by
//! address, but not their contents (`SHT_NOBITS`), and file offsets that mean nothing. So it
//! is asked for symbols by SVMA, and never to translate an offset: see [`crate::elf_image`].

use crate::elf::ElfSymbols;
use crate::{BuildId, file};
use memmap2::Mmap;
use std::path::{Path, PathBuf};

/// The roots of the places to look at.
#[derive(Debug, Clone)]
pub(crate) struct DebugFiles {
    /// Folders with a `.build-id` in them.
    pub(crate) dirs: Vec<PathBuf>,
    /// The cache that `perf record` fills. It is only read.
    pub(crate) perf_cache: Option<PathBuf>,
}

impl Default for DebugFiles {
    fn default() -> Self {
        let home = std::env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
        Self {
            dirs: vec![PathBuf::from("/usr/lib/debug")],
            perf_cache: home.map(|home| Path::new(&home).join(".debug")),
        }
    }
}

impl DebugFiles {
    /// A file with the full symbol table of the image with this build-id.
    pub(crate) fn symbols(&self, build_id: &BuildId) -> Option<ElfSymbols<Mmap>> {
        let full = |path: &Path| open(path, build_id).filter(ElfSymbols::has_symtab);
        in_debug_dirs(&self.dirs, build_id)
            .chain(in_perf_cache(self.perf_cache.as_deref(), build_id))
            .find_map(|path| full(&path))
    }

    /// A copy of the image itself, for one that is gone or was replaced.
    pub(crate) fn image(&self, build_id: &BuildId) -> Option<ElfSymbols<Mmap>> {
        let path = image_in_perf_cache(self.perf_cache.as_deref()?, build_id)?;
        open(&path, build_id)
    }
}

/// `DIR/.build-id/xx/yyyy.debug`, as distributions install it and `gdb` looks for it
/// (GDB manual, "Debugging Information in Separate Files").
fn in_debug_dirs(dirs: &[PathBuf], build_id: &BuildId) -> impl Iterator<Item = PathBuf> {
    let name = split_hex(build_id).map(|(first, rest)| format!("{first}/{rest}.debug"));
    dirs.iter()
        .filter_map(move |dir| Some(dir.join(".build-id").join(name.as_deref()?)))
}

/// What `perf record` (or `perf buildid-cache --add`) kept of an image and its debug file:
/// `.build-id/xx/yyyy/` with `elf` and `debug` in it.
fn in_perf_cache(cache: Option<&Path>, build_id: &BuildId) -> impl Iterator<Item = PathBuf> {
    let image = cache.and_then(|cache| image_in_perf_cache(cache, build_id));
    let debug = image.as_ref().map(|image| image.with_file_name("debug"));
    debug.into_iter().chain(image)
}

fn image_in_perf_cache(cache: &Path, build_id: &BuildId) -> Option<PathBuf> {
    let (first, rest) = split_hex(build_id)?;
    Some(cache.join(".build-id").join(first).join(rest).join("elf"))
}

/// The first byte, which names a folder, and the others. A build-id of one byte has no others.
fn split_hex(build_id: &BuildId) -> Option<(String, String)> {
    let mut first = build_id.to_string();
    let rest = first.split_off(2);
    (!rest.is_empty()).then_some((first, rest))
}

/// The file, if it is a regular one, ELF, and has just this build-id.
fn open(path: &Path, build_id: &BuildId) -> Option<ElfSymbols<Mmap>> {
    let symbols = ElfSymbols::parse(file::open(path).ok()?.bytes).ok()?;
    (symbols.build_id()?.matches(build_id)).then_some(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let dirs = ["/usr/lib/debug".into(), "/d".into()];
        let id = BuildId::new(&[0xab, 0x01, 0xff]).unwrap();
        let of = |paths: Vec<PathBuf>| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(
            of(in_debug_dirs(&dirs, &id).collect()),
            [
                "/usr/lib/debug/.build-id/ab/01ff.debug",
                "/d/.build-id/ab/01ff.debug"
            ]
        );
        assert_eq!(
            of(in_perf_cache(Some(Path::new("/c")), &id).collect()),
            ["/c/.build-id/ab/01ff/debug", "/c/.build-id/ab/01ff/elf"]
        );
        assert_eq!(in_perf_cache(None, &id).count(), 0);
        let short = BuildId::new(&[0xab]).unwrap();
        assert_eq!(in_debug_dirs(&dirs, &short).count(), 0);
    }
}
