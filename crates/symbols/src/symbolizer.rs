//! [`Symbolizer`]: many images, each opened and parsed once.

use crate::debug_file::DebugFiles;
use crate::elf_image::{ElfImage, check};
use crate::image::{ImageKey, ImageKind};
use crate::kernel::{self, KernelSymbols};
use crate::once::Once;
use crate::{BuildId, Frames, Reason, Style, Symbol, demangle};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What became of one address.
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
    debug_files: DebugFiles,
    images: Once<ImageKey, Image>,
    kernel: OnceLock<Result<KernelSymbols, Reason>>,
    /// Whether `kernel` was given by the user instead of being that of this machine.
    kernel_given: bool,
}

/// Settings of a [`Symbolizer`].
#[derive(Debug, Clone, Default)]
pub struct SymbolizerBuilder {
    style: Style,
    debug_files: DebugFiles,
    kernel_list: Option<Vec<u8>>,
}

impl SymbolizerBuilder {
    /// How names are shown. [`Style::NoParameters`] unless set, as in `perf`.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Folders to look for debug files of stripped images in, by build-id: each has files
    /// `.build-id/xx/yyyy.debug`. `/usr/lib/debug` unless set; an empty list looks nowhere.
    #[must_use]
    pub fn debug_dirs(mut self, dirs: Vec<PathBuf>) -> Self {
        self.debug_files.dirs = dirs;
        self
    }

    /// The cache that `perf record` fills, from which come images that are gone or replaced
    /// since, and debug files. `~/.debug` unless set; `None` uses none. It is only read.
    #[must_use]
    pub fn perf_cache(mut self, dir: Option<PathBuf>) -> Self {
        self.debug_files.perf_cache = dir;
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

    /// The symbolizer. Opens nothing yet.
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
            debug_files: self.debug_files,
            images: Once::default(),
            kernel,
            kernel_given,
        }
    }
}

impl Symbolizer {
    /// Starts with the default settings.
    #[must_use]
    pub fn builder() -> SymbolizerBuilder {
        SymbolizerBuilder::default()
    }

    /// Resolves addresses of one image: one result for each of `offsets`, in their order.
    ///
    /// What an offset is depends on the kind of image: see [`ImageKind`]. The caller
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
            Ok(Image::Vdso(symbols)) => self.resolve_elf(symbols, offsets),
            Ok(Image::Kernel { shift }) => self.resolve_kernel(image, *shift, offsets),
        }
    }

    /// The build-id that the image has now, whatever one is expected. `None` if it
    /// cannot be opened or has none. No debug file is looked for.
    #[must_use]
    pub fn build_id(&self, image: &ImageKey) -> Option<BuildId> {
        match image.kind() {
            ImageKind::Kernel => kernel::running_kernel_build_id(),
            ImageKind::KernelModule(name) => kernel::module_build_id(name),
            ImageKind::File(_) | ImageKind::Vdso => {
                let any = match image.kind() {
                    ImageKind::File(path) => ImageKey::file(path),
                    _ => ImageKey::vdso(),
                };
                match &*self.images.get(&any, || self.open(&any)) {
                    Ok(Image::File(symbols)) => symbols.build_id().copied(),
                    Ok(Image::Vdso(symbols)) => symbols.build_id().copied(),
                    _ => None,
                }
            }
        }
    }

    /// Closes an image that will not be asked for again. Resolving it later opens it anew.
    pub fn forget(&self, image: &ImageKey) {
        self.images.forget(image);
    }

    fn open(&self, image: &ImageKey) -> Result<Image, Reason> {
        match image.kind() {
            ImageKind::File(path) => {
                ElfImage::open(image, path, &self.debug_files).map(Image::File)
            }
            ImageKind::Vdso => ElfImage::open_vdso(image).map(Image::Vdso),
            ImageKind::Kernel => {
                if !self.kernel_given {
                    check(
                        image,
                        kernel::running_kernel_build_id().as_ref(),
                        Reason::ForeignKernel,
                    )?;
                }
                let symbols = self.kernel_symbols()?;
                let today = symbols.text_range().map(|text| text.start);
                Ok(Image::Kernel {
                    shift: shift(today, image),
                })
            }
            ImageKind::KernelModule(name) => {
                if !self.kernel_given {
                    check(
                        image,
                        kernel::module_build_id(name).as_ref(),
                        Reason::ForeignModule,
                    )?;
                }
                self.kernel_symbols()?;
                let module = kernel::loaded_modules()
                    .into_iter()
                    .find(|module| module.name == *name);
                Ok(Image::Kernel {
                    shift: shift(module.map(|module| module.start), image),
                })
            }
        }
    }

    fn kernel_symbols(&self) -> Result<&KernelSymbols, Reason> {
        let load = || KernelSymbols::load_running().map_err(|error| Reason::from(&error));
        self.kernel
            .get_or_init(load)
            .as_ref()
            .map_err(|reason| *reason)
    }

    fn resolve_elf<D: AsRef<[u8]>>(&self, image: &ElfImage<D>, offsets: &[u64]) -> Vec<Lookup> {
        let mut names = Names::default();
        let resolve = |&offset: &u64| {
            let (found, within) = image.lookup(offset, &self.debug_files)?;
            let symbol = names.get((found.start(), found.is_plt()), || {
                let mut raw = String::from_utf8_lossy(found.raw()).into_owned();
                if found.is_plt() {
                    raw.push_str("@plt");
                }
                Symbol {
                    name: found.name(self.style).into(),
                    raw: raw.into(),
                    start: found.start(),
                    size: found.size(),
                    module: None,
                }
            });
            Ok(Frames::new(symbol, within))
        };
        offsets.iter().map(resolve).collect()
    }

    fn resolve_kernel(&self, image: &ImageKey, shift: u64, offsets: &[u64]) -> Vec<Lookup> {
        let symbols = match self.kernel_symbols() {
            Ok(symbols) => symbols,
            Err(reason) => return vec![Err(reason); offsets.len()],
        };
        let wanted = match image.kind() {
            ImageKind::KernelModule(name) => Some(&**name),
            _ => None,
        };
        let mut names = Names::default();
        let resolve = |&avma: &u64| {
            let avma = avma.wrapping_add(shift);
            let found = symbols.lookup(avma).ok_or(Reason::NoSymbolAtAddress)?;
            // Another module may have been loaded at that place since. Recorders of the kernel as a
            // whole leave what is in modules to us, so there any module will do.
            if wanted.is_some() && found.module != wanted {
                return Err(Reason::ForeignModule);
            }
            let symbol = names.get((found.start, false), || Symbol {
                name: demangle::demangle(found.name, self.style).into(),
                raw: found.name.into(),
                start: found.start,
                size: found.size,
                module: found.module.map(Into::into),
            });
            Ok(Frames::new(symbol, avma - found.start))
        };
        offsets.iter().map(resolve).collect()
    }
}

/// An image that is ready for lookups.
#[derive(Debug)]
enum Image {
    File(ElfImage<Mmap>),
    Vdso(ElfImage<Vec<u8>>),
    /// The kernel or a module; add `shift` to recorded addresses.
    Kernel {
        shift: u64,
    },
}

/// How far the image moved since it was recorded. An address of zero is one that was hidden.
fn shift(today: Option<u64>, image: &ImageKey) -> u64 {
    match (today, image.recorded_start()) {
        (Some(today), Some(recorded)) if today != 0 && recorded != 0 => {
            today.wrapping_sub(recorded)
        }
        _ => 0,
    }
}

/// Shares one [`Symbol`] among the addresses in it. The key is its start, and whether it is
/// a PLT entry: those come from another table where there is a debug file.
#[derive(Default)]
struct Names(FxHashMap<(u64, bool), Arc<Symbol>>);

impl Names {
    fn get(&mut self, key: (u64, bool), make: impl FnOnce() -> Symbol) -> Arc<Symbol> {
        Arc::clone(self.0.entry(key).or_insert_with(|| Arc::new(make())))
    }
}
