//! [`Symbolizer`]: many images, each opened and parsed once.

mod code;
mod function_bounds;
mod symbol_cache;

pub use code::Code;
pub use function_bounds::{FunctionBounds, KernelPrefetch, PartialLookup};

use crate::archive::Archive;
use crate::debug::DebugFiles;
use crate::dwarf::DwarfQuery;
use crate::elf_image::{ElfImage, check, right_file};
use crate::kernel::{self, KernelSymbols, Vmlinux, VmlinuxError};
use crate::located::LocatedNames;
use crate::memory::Memory;
use crate::once_map::OnceMap;
use crate::pages::Pages;
use crate::reconcile::Reconciler;
use crate::{Frames, Reason, Style, Symbol, demangle};
use rprof_image::{BuildId, ImageFile, ImageKey, ImageSource, RemoteFiles, build_id_of};
use rprof_output::PrivateCache;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Result for one address.
pub type Lookup = Result<Frames, Reason>;

/// Turns (image, offset) into function names.
///
/// Shared by reference: threads resolve different images, or parts of a big one, at
/// the same time. Each image is opened and parsed by the first thread that asks for
/// it, while others that want the same one wait; nothing else is locked.
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
    /// True if functions without symbols are located by unwinding information.
    locates: bool,
    threads: usize,
    debug_files: DebugFiles,
    images: OnceMap<ImageKey, Image>,
    kernel: OnceLock<Result<KernelSymbols, Reason>>,
    /// Cache of the kernel's symbols.
    kernel_cache: Option<PrivateCache>,
    /// All symbols of the kernel, where those in `kernel` are of the cache, and did not do.
    whole_kernel: OnceLock<Result<KernelSymbols, Reason>>,
    /// AVMAs at which answers for the kernel change.
    kernel_bounds: OnceLock<FunctionBounds>,
    /// True while kernel symbols are about to be loaded.
    loads_kernel: AtomicBool,
    /// True if `kernel` was given by the user instead of being read from this machine.
    kernel_given: bool,
    vmlinux: Option<Result<Vmlinux, VmlinuxError>>,
    /// Error for which the given `vmlinux` is not used.
    refused: OnceLock<VmlinuxError>,
}

/// Settings of a [`Symbolizer`].
#[derive(Debug, Clone, Default)]
pub struct SymbolizerBuilder {
    style: Style,
    query: DwarfQuery,
    locates: bool,
    threads: usize,
    debug_files: DebugFiles,
    kernel_list: Option<Vec<u8>>,
    kernel_cache: Option<PrivateCache>,
    vmlinux: Option<PathBuf>,
}

impl SymbolizerBuilder {
    /// Sets the style of names; [`Style::NoParameters`] by default, as in `perf`.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Sets whether calls that the compiler inlined are frames of their own, by debug information;
    /// `true` by default.
    #[must_use]
    pub fn inlines(mut self, wanted: bool) -> Self {
        self.query.inlines = wanted;
        self
    }

    /// Sets whether frames have source lines, from debug information; `true` by default. They take
    /// about as long again as inlined calls do.
    #[must_use]
    pub fn lines(mut self, wanted: bool) -> Self {
        self.query.lines = wanted;
        self
    }

    /// Sets whether a function of an image's unwinding information that no table names has a symbol all the same, made of
    /// the image's name and its start: see [`Symbol::located`]. `false` by default, as in `perf`.
    #[must_use]
    pub fn locates(mut self, wanted: bool) -> Self {
        self.locates = wanted;
        self
    }

    /// Sets the number of threads on which a batch of addresses of one image is looked up in debug
    /// information. By default, or for 0, as many as there are cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets a folder that replaces `/`: images are looked up below it, and debug files there first.
    /// Files in it count as copies, so inodes are not compared.
    #[must_use]
    pub fn root(mut self, root: Option<PathBuf>) -> Self {
        self.debug_files.root = root;
        self
    }

    /// Sets the folders in which debug files of stripped images are looked up by build-id: each has
    /// files `.build-id/xx/yyyy.debug`. `/usr/lib/debug` by default; none for an empty list.
    #[must_use]
    pub fn debug_dirs(mut self, dirs: Vec<PathBuf>) -> Self {
        self.debug_files.dirs = dirs;
        self
    }

    /// Sets the cache that `perf record` fills, which provides debug files, and images that are
    /// gone or replaced since. `~/.debug` by default; `None` uses none. It is only read.
    #[must_use]
    pub fn perf_cache(mut self, dir: Option<PathBuf>) -> Self {
        self.debug_files.perf_cache = dir;
        self
    }

    /// Sets the memory for parts of files as they are decompressed. By default 256 MiB for files that
    /// strangers may have made, and a quarter of the machine's for those of root and one's own.
    #[must_use]
    pub fn memory(mut self, memory: Memory) -> Self {
        self.debug_files.memory = memory;
        self
    }

    /// Sets a source of debug files that are nowhere on this machine. None by default.
    #[must_use]
    pub fn remote(mut self, remote: Option<Arc<dyn RemoteFiles>>) -> Self {
        self.debug_files.remote = remote;
        self
    }

    /// Takes kernel symbols from this text, in the form of `/proc/kallsyms`, for instance
    /// one that was saved along with a recording. It is trusted to be of the kernel that
    /// was recorded: build-ids of kernel and modules are not checked.
    #[must_use]
    pub fn kernel_list(mut self, list: Vec<u8>) -> Self {
        self.kernel_list = Some(list);
        self
    }

    /// Sets where the symbols of the running kernel are kept from one run to the next, which spares each the 80 ms of
    /// reading `/proc/kallsyms`. They are not kept where the kernel hides them. None by default.
    #[must_use]
    pub fn kernel_cache(mut self, cache: Option<PrivateCache>) -> Self {
        self.kernel_cache = cache;
        self
    }

    /// Sets the kernel as ELF file, for names, inlined calls and lines. It is used for kernels of
    /// its build-id only; modules, and addresses that it does not name, still go by
    /// `/proc/kallsyms`.
    #[must_use]
    pub fn vmlinux(mut self, path: Option<PathBuf>) -> Self {
        self.vmlinux = path;
        self
    }

    /// Builds the symbolizer. Opens nothing yet, but for a `vmlinux`.
    #[must_use]
    pub fn build(self) -> Symbolizer {
        let kernel = OnceLock::new();
        let kernel_given = self.kernel_list.is_some();
        if let Some(list) = self.kernel_list {
            let symbols = KernelSymbols::parse(&list[..]).map_err(|error| Reason::from(&error));
            kernel.get_or_init(|| symbols);
        }
        Symbolizer {
            style: self.style,
            query: self.query,
            locates: self.locates,
            threads: if self.threads == 0 {
                rprof_parallel::available()
            } else {
                self.threads
            },
            debug_files: self.debug_files,
            images: OnceMap::default(),
            kernel,
            kernel_cache: self.kernel_cache,
            whole_kernel: OnceLock::new(),
            kernel_bounds: OnceLock::new(),
            loads_kernel: AtomicBool::new(false),
            kernel_given,
            vmlinux: self.vmlinux.map(|path| Vmlinux::open(&path)),
            refused: OnceLock::new(),
        }
    }
}

impl Symbolizer {
    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> SymbolizerBuilder {
        SymbolizerBuilder::default()
    }

    /// Resolves addresses of one image: one result for each of `offsets`, in their order.
    ///
    /// The meaning of an offset depends on the kind of image: see [`ImageSource`]. The caller
    /// subtracts one from return addresses first. Offsets may repeat and come in
    /// any order; sorted ones are cheapest, as each run in one function is named once.
    ///
    /// An image that cannot be used gives the same [`Reason`] for every offset.
    #[must_use]
    pub fn resolve_image(&self, image: &ImageKey, offsets: &[u64]) -> Vec<Lookup> {
        let opened = self.images.get(image, || self.open(image));
        match &*opened {
            Err(reason) => vec![Err(*reason); offsets.len()],
            Ok(Image::File(symbols)) => self.resolve_elf(symbols, offsets),
            Ok(Image::Archive(archive)) => self.resolve_archive(archive, offsets),
            Ok(Image::Vdso(symbols)) => self.resolve_elf(symbols, offsets),
            Ok(Image::Kernel { shift, vmlinux }) => {
                let mut found = self.resolve_kernel(image, *shift, offsets);
                if let (Some(shift), Some(Ok(vmlinux))) = (vmlinux, &self.vmlinux) {
                    let svmas = offsets.iter().map(|avma| Ok(avma.wrapping_add(*shift)));
                    let known = self.resolve_svmas(&vmlinux.image, svmas.collect());
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

    /// Resolves addresses of an image of which the caller has a copy; `offsets` are file offsets,
    /// as for [`resolve_image`](Self::resolve_image). Debug files are looked for as for an image at
    /// `path`. Nothing of the copy is kept.
    #[must_use]
    pub fn resolve_copy(&self, bytes: Vec<u8>, path: &Path, offsets: &[u64]) -> Vec<Lookup> {
        match ElfImage::of_copy(bytes, self.debug_files.place(path)) {
            Ok(image) => self.resolve_elf(&image, offsets),
            Err(reason) => vec![Err(reason); offsets.len()],
        }
    }

    /// Returns true for a Rust program or library without debug information: calls inlined into its functions are no frames
    /// of their own, which hides more in Rust than in other languages.
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

    /// Returns the build-id that the image has now, whichever one is expected. Returns `None` if it
    /// cannot be opened or has none. Only its notes are read.
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

    /// Opens the file of an image, if it has the expected identity, for callers that read more of
    /// it than names.
    ///
    /// # Errors
    /// [`Reason`] for which the file is not available; also for images that are no files.
    pub fn image_file(&self, image: &ImageKey) -> Result<ImageFile, Reason> {
        match image.source() {
            ImageSource::File(path) => {
                let path = self.debug_files.place(path);
                right_file(image, &path, &self.debug_files)
            }
            _ => Err(Reason::SpecialMapping),
        }
    }

    /// Returns the memory for parts of files as they are decompressed.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.debug_files.memory
    }

    /// Returns true if images are looked for below a [root folder](SymbolizerBuilder::root).
    #[must_use]
    pub fn has_root(&self) -> bool {
        self.debug_files.root.is_some()
    }

    /// Returns true if files that this machine lacks are requested
    /// [remotely](SymbolizerBuilder::remote), so that the order of images matters.
    #[must_use]
    pub fn has_remote(&self) -> bool {
        self.debug_files.remote.is_some()
    }

    /// Closes an image that will not be needed again. Resolving it later opens it anew.
    pub fn forget(&self, image: &ImageKey) {
        self.images.forget(image);
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
                    shift: Ok(shift(module.map(|module| module.start), image)),
                    vmlinux: None,
                })
            }
        }
    }

    /// Returns the difference between addresses of `/proc/kallsyms` and recorded ones of a kernel,
    /// if the list is of that kernel.
    fn kernel_shift(&self, image: &ImageKey) -> Result<u64, Reason> {
        if !self.kernel_given {
            let running = rprof_image::running_kernel_build_id();
            check(image, running.as_ref(), Reason::ForeignKernel)?;
        }
        let symbols = self.kernel_symbols()?;
        let today = symbols.text_range().map(|text| text.start);
        Ok(shift(today, image))
    }

    /// Returns the difference between SVMAs of the `vmlinux` and recorded addresses of a kernel, if
    /// it is of that kernel.
    fn vmlinux_shift(&self, image: &ImageKey) -> Option<u64> {
        let running = || rprof_image::running_kernel_build_id();
        // Whoever asks for a kernel without saying which means the one that runs.
        let expected = image.build_id().copied().or_else(running);
        let today = || {
            let is_here = expected.is_some() && expected == running();
            let symbols = self.kernel_symbols().ok().filter(|_| is_here)?;
            symbols.text_range().map(|text| text.start)
        };
        let start = image.recorded_start().or_else(today);
        let vmlinux = self.vmlinux.as_ref()?.as_ref();
        match vmlinux.map(|vmlinux| vmlinux.shift(expected.as_ref(), start)) {
            Ok(Ok(shift)) => Some(shift),
            Ok(Err(error)) => {
                self.refused.get_or_init(|| error);
                None
            }
            Err(error) => {
                self.refused.get_or_init(|| error.clone());
                None
            }
        }
    }

    /// Returns the error for which the given `vmlinux` was not used for a kernel that was looked
    /// up.
    #[must_use]
    pub fn refused_vmlinux(&self) -> Option<&VmlinuxError> {
        let unusable = self
            .vmlinux
            .as_ref()
            .and_then(|opened| opened.as_ref().err());
        self.refused.get().or(unusable)
    }

    fn kernel_symbols(&self) -> Result<&KernelSymbols, Reason> {
        let load = || {
            let loaded = kernel::load_running(self.kernel_cache.as_ref());
            loaded.map_err(|error| Reason::from(&error))
        };
        self.kernel
            .get_or_init(load)
            .as_ref()
            .map_err(|reason| *reason)
    }

    /// Returns symbols of the kernel that have all there are at these addresses.
    fn kernel_symbols_at(
        &self,
        mut avmas: impl Iterator<Item = u64>,
    ) -> Result<&KernelSymbols, Reason> {
        let symbols = self.kernel_symbols()?;
        if avmas.all(|avma| symbols.is_certain(avma)) {
            return Ok(symbols);
        }
        let load = || KernelSymbols::load_running().map_err(|error| Reason::from(&error));
        let whole = self.whole_kernel.get_or_init(load);
        whole.as_ref().map_err(|reason| *reason)
    }

    fn resolve_elf<D: Pages>(&self, image: &ElfImage<D>, offsets: &[u64]) -> Vec<Lookup> {
        let svmas = offsets.iter().map(|&offset| image.svma(offset)).collect();
        self.resolve_svmas(image, svmas)
    }

    fn resolve_svmas<D: Pages>(
        &self,
        image: &ElfImage<D>,
        svmas: Vec<Result<u64, Reason>>,
    ) -> Vec<Lookup> {
        let places = &self.debug_files;
        let mut sorted: Vec<u64> = svmas.iter().filter_map(|svma| svma.ok()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        image.prepare(&sorted, places);
        let debug = match self.query.inlines || self.query.lines {
            true => image.debug_info(places),
            false => None,
        };
        let found = debug.map(|debug| debug.resolve(&sorted, self.query, self.threads));
        let found = found.unwrap_or_default();
        let mut names = Reconciler::new(self.style, &found, self.threads);
        let mut found = found.into_iter();
        let mut located = LocatedNames::default();
        let lookup = |&svma: &u64| {
            let symbol = image.symbol(svma, places);
            let frames = names.frames(svma, symbol, found.next().flatten());
            let frames = frames.or_else(|| image.signal_trampoline(svma));
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
        // Mostly each address is asked for once, and its answer need not be copied.
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

    fn resolve_archive(&self, archive: &Archive, offsets: &[u64]) -> Vec<Lookup> {
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
                Ok(image) => self.resolve_elf(image, &inside),
                Err(reason) => vec![Err(reason); inside.len()],
            };
            for (place, found) in places.into_iter().zip(found) {
                lookups[place] = found;
            }
        }
        lookups
    }

    fn resolve_kernel(
        &self,
        image: &ImageKey,
        shift: Result<u64, Reason>,
        offsets: &[u64],
    ) -> Vec<Lookup> {
        let symbols = shift.and_then(|shift| {
            let avmas = offsets.iter().map(|offset| offset.wrapping_add(shift));
            Ok((shift, self.kernel_symbols_at(avmas)?))
        });
        let (shift, symbols) = match symbols {
            Ok(symbols) => symbols,
            Err(reason) => return vec![Err(reason); offsets.len()],
        };
        let wanted = match image.source() {
            ImageSource::KernelModule(name) => Some(&**name),
            _ => None,
        };
        let mut names = symbol_cache::SymbolCache::default();
        let resolve = |&avma: &u64| {
            let avma = avma.wrapping_add(shift);
            let found = symbols.lookup(avma).ok_or(Reason::NoSymbolAtAddress)?;
            // Another module may have been loaded at that place since. Recorders of the kernel as a
            // whole leave what is in modules to us, so there any module will do.
            if wanted.is_some() && found.module != wanted {
                return Err(Reason::ForeignModule);
            }
            let symbol = names.get(found.start, || Symbol {
                name: demangle::demangle(found.name, self.style).into(),
                raw: found.name.into(),
                start: found.start,
                size: found.size,
                module: found.module.map(Into::into),
                located: None,
            });
            Ok(Frames::new(symbol, avma - found.start))
        };
        offsets.iter().map(resolve).collect()
    }
}

/// Image that is ready for lookups.
#[derive(Debug)]
enum Image {
    File(ElfImage<ImageFile>),
    /// Several images, at offsets of one file.
    Archive(Archive),
    Vdso(ElfImage<Vec<u8>>),
    /// The kernel or a module.
    Kernel {
        /// Difference between addresses of `/proc/kallsyms` and recorded ones, if the list is of
        /// this kernel.
        shift: Result<u64, Reason>,
        /// Difference between SVMAs of the `vmlinux` and recorded addresses, if it is of this
        /// kernel.
        vmlinux: Option<u64>,
    },
}

/// Returns the distance that the image moved since it was recorded. An address of zero was hidden.
fn shift(today: Option<u64>, image: &ImageKey) -> u64 {
    match (today, image.recorded_start()) {
        (Some(today), Some(recorded)) if today != 0 && recorded != 0 => {
            today.wrapping_sub(recorded)
        }
        _ => 0,
    }
}
