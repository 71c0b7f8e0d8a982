//! [`Symbolizer`]: resolves addresses of many images, opening each once.

mod builder;
mod code;
mod function_bounds;
mod of_kernel;

pub use builder::SymbolizerBuilder;
pub use code::Code;
pub use function_bounds::{FunctionBounds, KernelPrefetch, PartialLookup};

use crate::archive::Archive;
use crate::debug::DebugFiles;
use crate::dwarf::{DebugInfo, DwarfQuery, Found};
use crate::elf_image::{ElfImage, check, right_file};
use crate::kernel::{KernelSymbols, RunningKernel, Vmlinux, VmlinuxError};
use crate::linkage_names;
use crate::located::LocatedNames;
use crate::memory::MemoryLimits;
use crate::once_map::OnceMap;
use crate::pages::Pages;
use crate::reconcile::Reconciler;
use crate::same_names;
use crate::static_names;
use crate::{Frames, Reason, Style};
use rprof_image::{BuildId, ImageFile, ImageKey, ImageSource, build_id_of};
use rprof_output::PrivateCache;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// Result for one address.
pub type Lookup = Result<Frames, Reason>;

/// Resolves (image, offset) to function names.
///
/// Threads share it by reference and resolve images, or parts of one, in parallel. The first thread
/// that needs an image opens it, and others that need the same image wait.
///
/// ```
/// use rprof_symbols::{ImageKey, Symbolizer};
///
/// let symbolizer = Symbolizer::builder().build();
/// let image = ImageKey::file("/proc/self/exe");
/// for lookup in symbolizer.resolve_image(&image, &[0x1000, 0x2000]) {
///     match lookup {
///         Ok(frames) => assert!(!frames.symbol().name.is_empty()),
///         Err(reason) => assert!(!reason.to_string().is_empty()),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Symbolizer {
    style: Style,
    query: DwarfQuery,
    /// True if functions without symbols are located: see `located`.
    locates: bool,
    /// True if functions of the same name are disambiguated by file and line.
    tells_apart: bool,
    threads: usize,
    debug_files: DebugFiles,
    images: OnceMap<ImageKey, Image>,
    kernel: OnceLock<Result<RunningKernel, Reason>>,
    kernel_cache: Option<PrivateCache>,
    answer_cache: Option<PrivateCache>,
    /// All kernel symbols, loaded if the cached ones in `kernel` are insufficient.
    whole_kernel: OnceLock<Result<KernelSymbols, Reason>>,
    kernel_bounds: OnceLock<FunctionBounds>,
    /// True while kernel symbols are about to be loaded.
    loads_kernel: AtomicBool,
    /// True if the user gave `kernel`; false if it was read from this machine.
    kernel_given: bool,
    vmlinux: Option<Result<Vmlinux, VmlinuxError>>,
    /// Why the given `vmlinux` is not used.
    refused: OnceLock<VmlinuxError>,
}

impl Symbolizer {
    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> SymbolizerBuilder {
        SymbolizerBuilder::default()
    }

    /// Resolves addresses of one image. Returns one result for each of `offsets`, in their order.
    ///
    /// Offsets depend on the kind of image: see [`ImageSource`]. The caller subtracts one from
    /// return addresses. Offsets may repeat and come in any order; sorted ones are cheapest.
    ///
    /// An unusable image yields the same [`Reason`] for every offset.
    #[must_use]
    pub fn resolve_image(&self, image: &ImageKey, offsets: &[u64]) -> Vec<Lookup> {
        self.resolve(image, offsets, self.query)
    }

    /// Resolves as [`resolve_image`](Self::resolve_image) does, without inlined calls and lines.
    /// Reads no debug information, which takes most of the time if compressed.
    #[must_use]
    pub fn resolve_by_symbols(&self, image: &ImageKey, offsets: &[u64]) -> Vec<Lookup> {
        let nothing = DwarfQuery {
            inlines: false,
            lines: false,
        };
        self.resolve(image, offsets, nothing)
    }

    fn resolve(&self, image: &ImageKey, offsets: &[u64], query: DwarfQuery) -> Vec<Lookup> {
        let opened = self.images.get(image, || self.open(image));
        let found = self.resolve_opened(image, &opened, offsets, query);
        if let (Some(_), Ok(Image::File(elf))) = (&self.debug_files.lasting, &*opened)
            && elf.is_to_be_closed(&self.debug_files)
        {
            self.forget(image);
        }
        found
    }

    fn resolve_opened(
        &self,
        image: &ImageKey,
        opened: &Result<Image, Reason>,
        offsets: &[u64],
        query: DwarfQuery,
    ) -> Vec<Lookup> {
        match opened {
            Err(reason) => vec![Err(*reason); offsets.len()],
            Ok(Image::File(symbols)) => self.resolve_elf(symbols, offsets, query),
            Ok(Image::Archive(archive)) => self.resolve_archive(archive, offsets, query),
            Ok(Image::Vdso(symbols)) => self.resolve_elf(symbols, offsets, query),
            Ok(Image::Kernel { shift, vmlinux }) => {
                let mut found = self.resolve_kernel(image, *shift, offsets);
                if let (Some(shift), Some(Ok(vmlinux))) = (vmlinux, &self.vmlinux) {
                    let svmas = offsets.iter().map(|avma| Ok(avma.wrapping_add(*shift)));
                    let known = self.resolve_svmas(&vmlinux.image, svmas.collect(), query);
                    for (found, known) in found.iter_mut().zip(known) {
                        if known.is_ok() {
                            *found = known;
                        }
                    }
                }
                found
            }
        }
    }

    /// Resolves file offsets of an image in memory. Searches for debug files as for an image at
    /// `path`.
    #[must_use]
    pub fn resolve_copy(&self, bytes: Vec<u8>, path: &Path, offsets: &[u64]) -> Vec<Lookup> {
        match ElfImage::of_copy(bytes, self.debug_files.place(path)) {
            Ok(image) => self.resolve_elf(&image, offsets, self.query),
            Err(reason) => vec![Err(reason); offsets.len()],
        }
    }

    /// Returns true for Rust code without debug information. Its missing inlined calls hide more
    /// than in other languages.
    #[must_use]
    pub fn hides_inlined_calls(&self, image: &ImageKey) -> bool {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Ok(Image::File(symbols)) => {
                self.query.inlines && symbols.hides_inlined_calls(&self.debug_files)
            }
            _ => false,
        }
    }

    /// Returns the current build-id of the image. Reads only its notes.
    #[must_use]
    pub fn build_id(&self, image: &ImageKey) -> Option<BuildId> {
        match image.source() {
            ImageSource::Kernel => rprof_image::running_kernel_build_id(),
            ImageSource::KernelModule(name) => rprof_image::module_build_id(name),
            ImageSource::File(path) => {
                let file = ImageFile::open(&self.debug_files.place(path)).ok()?;
                build_id_of(file.bytes())
            }
            ImageSource::Vdso => build_id_of(&rprof_image::vdso_image()?[..]),
        }
    }

    /// Opens the file of an image if the identity matches, for callers that need more than names.
    ///
    /// # Errors
    /// [`Reason`] why the file is not available; also for images without a file.
    pub fn image_file(&self, image: &ImageKey) -> Result<ImageFile, Reason> {
        match image.source() {
            ImageSource::File(path) => {
                let path = self.debug_files.place(path);
                right_file(image, &path, &self.debug_files)
            }
            _ => Err(Reason::SpecialMapping),
        }
    }

    /// Returns the memory limits for decompression.
    #[must_use]
    pub fn memory(&self) -> &MemoryLimits {
        &self.debug_files.memory
    }

    /// Returns true if images are looked up below a [root folder](SymbolizerBuilder::root).
    #[must_use]
    pub fn has_root(&self) -> bool {
        self.debug_files.root.is_some()
    }

    /// Returns true if missing files are [fetched remotely](SymbolizerBuilder::remote), so that the
    /// order of images matters.
    #[must_use]
    pub fn has_remote(&self) -> bool {
        self.debug_files.remote.is_some()
    }

    /// Closes an image that is no longer needed. Resolving it later reopens it.
    pub fn forget(&self, image: &ImageKey) {
        self.images.forget(image);
    }

    /// Closes the images unused since the previous call, to limit memory. Resolving one later
    /// reopens it.
    pub fn forget_unused(&self) {
        self.images.forget_unused();
    }

    /// Closes the images whose files were removed or replaced, if the symbolizer [releases
    /// files](SymbolizerBuilder::releases_files).
    pub fn forget_removed(&self) {
        if self.debug_files.lasting.is_some() {
            self.images.retain(|image| match image {
                Ok(Image::File(elf)) => !elf.is_to_be_closed(&self.debug_files),
                _ => true,
            });
        }
    }

    fn open(&self, image: &ImageKey) -> Result<Image, Reason> {
        match image.source() {
            ImageSource::File(path) => {
                let opened = ElfImage::open(image, path, &self.debug_files);
                match opened {
                    Err(Reason::NotAnElf) => self.open_archive(image).ok_or(Reason::NotAnElf),
                    opened => opened.map(Image::File),
                }
            }
            ImageSource::Vdso => ElfImage::open_vdso(image).map(Image::Vdso),
            ImageSource::Kernel => {
                let vmlinux = self.vmlinux_shift(image);
                match (self.kernel_shift(image), vmlinux) {
                    (Err(reason), None) => Err(reason),
                    (shift, vmlinux) => Ok(Image::Kernel { shift, vmlinux }),
                }
            }
            ImageSource::KernelModule(name) => {
                if !self.kernel_given {
                    check(
                        image,
                        rprof_image::module_build_id(name).as_ref(),
                        Reason::ForeignModule,
                    )?;
                }
                self.kernel_symbols()?;
                let module = rprof_image::loaded_modules()
                    .into_iter()
                    .find(|module| module.name == *name);
                Ok(Image::Kernel {
                    shift: Ok(of_kernel::shift(module.map(|module| module.start), image)),
                    vmlinux: None,
                })
            }
        }
    }

    fn resolve_elf<D: Pages>(
        &self,
        image: &ElfImage<D>,
        offsets: &[u64],
        query: DwarfQuery,
    ) -> Vec<Lookup> {
        let svmas = offsets.iter().map(|&offset| image.svma(offset)).collect();
        self.resolve_svmas(image, svmas, query)
    }

    fn resolve_svmas<D: Pages>(
        &self,
        image: &ElfImage<D>,
        svmas: Vec<Result<u64, Reason>>,
        query: DwarfQuery,
    ) -> Vec<Lookup> {
        let places = &self.debug_files;
        let mut sorted: Vec<u64> = svmas.iter().filter_map(|svma| svma.ok()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        image.prepare(&sorted, places);
        let debug = match query.inlines || query.lines {
            true => image.debug_info(places),
            false => None,
        };
        let answers = |debug: &DebugInfo<'_>, svmas: &[u64], query| match &self.answer_cache {
            Some(cache) => {
                let (memory, store) = (&places.memory, image.answers(query));
                store.resolve(cache, memory, debug, svmas, query, self.threads)
            }
            None => debug.resolve(svmas, query, self.threads),
        };
        let found = debug.as_ref().map(|debug| answers(debug, &sorted, query));
        let mut found = found.unwrap_or_default();
        if let (Some(debug), true, true) = (&debug, query.inlines, self.tells_apart) {
            let is_named = |svma, found: &Found| {
                let name = found.frames.first().and_then(|frame| frame.name.as_ref());
                let symbol = image.symbol(svma, places);
                symbol.zip(name).is_some_and(|(symbol, name)| {
                    symbol.start() >= found.range.start && symbol.raw() != name.as_bytes()
                })
            };
            let with_lines = DwarfQuery {
                lines: true,
                ..query
            };
            same_names::tell_apart(&sorted, &mut found, is_named, |svmas| {
                answers(debug, svmas, with_lines)
            });
        }
        let has_evidence = |language| image.has_evidence(language, places);
        let mut names = Reconciler::new(self.style, &has_evidence, &found, self.threads);
        let mut found = found.into_iter();
        let mut located = LocatedNames::default();
        let lookup = |&svma: &u64| {
            let symbol = image.symbol(svma, places);
            let frames = names.frames(svma, symbol, found.next().flatten());
            let frames = image.signal_trampoline(svma, frames.is_some()).or(frames);
            frames.map_or_else(
                || {
                    let reason = image.reason(svma, places);
                    let frames = self
                        .locates
                        .then(|| located.frames(image, svma, reason, places));
                    frames.flatten().ok_or(reason)
                },
                Ok,
            )
        };
        let mut lookups: Vec<Lookup> = sorted.iter().map(lookup).collect();
        if self.tells_apart {
            linkage_names::tell_apart(&mut lookups, self.style);
            static_names::tell_apart(&mut lookups, |starts| image.distinctions(starts, places));
        }
        // Move results if no address repeats.
        let is_once = svmas.iter().filter(|svma| svma.is_ok()).count() == sorted.len();
        let resolve = |svma: Result<u64, Reason>| {
            let index = sorted.binary_search(&svma?).unwrap_or(usize::MAX);
            let outside = Err(Reason::OutsideImage);
            match lookups.get_mut(index) {
                Some(lookup) if is_once => std::mem::replace(lookup, outside),
                Some(lookup) => lookup.clone(),
                None => outside,
            }
        };
        svmas.into_iter().map(resolve).collect()
    }

    fn open_archive(&self, image: &ImageKey) -> Option<Image> {
        let path = self.debug_files.place(image.path()?);
        let file = right_file(image, &path, &self.debug_files).ok()?;
        Archive::open(file, &path).map(Image::Archive)
    }

    fn resolve_archive(
        &self,
        archive: &Archive,
        offsets: &[u64],
        query: DwarfQuery,
    ) -> Vec<Lookup> {
        let mut lookups = vec![Err(Reason::OutsideImage); offsets.len()];
        let mut by_image: FxHashMap<usize, (Vec<usize>, Vec<u64>)> = FxHashMap::default();
        for (place, offset) in offsets.iter().enumerate() {
            if let Some((number, offset)) = archive.image_at(*offset) {
                let (places, inside) = by_image.entry(number).or_default();
                places.push(place);
                inside.push(offset);
            }
        }
        for (number, (places, inside)) in by_image {
            let found = match archive.image(number) {
                Ok(image) => self.resolve_elf(image, &inside, query),
                Err(reason) => vec![Err(reason); inside.len()],
            };
            for (place, found) in places.into_iter().zip(found) {
                lookups[place] = found;
            }
        }
        lookups
    }
}

#[derive(Debug)]
enum Image {
    File(ElfImage<ImageFile>),
    /// Several images, at offsets of one file.
    Archive(Archive),
    Vdso(ElfImage<Vec<u8>>),
    Kernel {
        /// Difference between addresses of `/proc/kallsyms` and recorded ones, if the list is of
        /// this kernel.
        shift: Result<u64, Reason>,
        /// Difference between SVMAs of the `vmlinux` and recorded addresses, if it is of this
        /// kernel.
        vmlinux: Option<u64>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn mapped_below(folder: &Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let folder = folder.to_str().unwrap();
        maps.lines().filter(|line| line.contains(folder)).count()
    }

    #[test]
    fn images_outside_of_lasting_places_are_not_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("program");
        std::fs::copy("/proc/self/exe", &path).unwrap();
        let image = ImageKey::file(&path);
        let builder = || Symbolizer::builder().inlines(false).lines(false);
        let offsets: Vec<u64> = (0..2_000_000).step_by(1000).collect();
        let holding = builder().build();
        let expected = holding.resolve_image(&image, &offsets);
        assert!(expected.iter().any(Result::is_ok));
        assert!(mapped_below(folder.path()) > 0);
        drop(holding);
        let releasing = builder().releases_files(true).build();
        for _ in 0..2 {
            assert_eq!(releasing.resolve_image(&image, &offsets), expected);
            assert_eq!(mapped_below(folder.path()), 0);
        }
    }
}
