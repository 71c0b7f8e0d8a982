//! Settings of a [`Symbolizer`], and one made of them.

use super::Symbolizer;
use crate::debug::DebugFiles;
use crate::dwarf::DwarfQuery;
use crate::kernel::{KernelSymbols, RunningKernel, Vmlinux};
use crate::memory::Memory;
use crate::once_map::OnceMap;
use crate::{Reason, Style};
use rprof_image::RemoteFiles;
use rprof_output::PrivateCache;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Settings of a [`Symbolizer`].
#[derive(Debug, Clone, Default)]
pub struct SymbolizerBuilder {
    style: Style,
    query: DwarfQuery,
    locates: bool,
    merges_same_names: bool,
    threads: usize,
    debug_files: DebugFiles,
    kernel_list: Option<Vec<u8>>,
    kernel_cache: Option<PrivateCache>,
    answer_cache: Option<PrivateCache>,
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

    /// Sets whether files are released that may go: what lies on a mount that may be taken away, or was just built, is copied
    /// or opened again each time, so that its mount can be unmounted and its space is free once it is removed. For who symbolizes for long,
    /// and others' programs. `false` by default.
    #[must_use]
    pub fn releases_files(mut self, wanted: bool) -> Self {
        self.debug_files.lasting = wanted.then(Arc::default);
        self
    }

    /// Sets whether a function of an image's unwinding information that no table names has a symbol all the same, made of
    /// the image's name and its start: see [`Symbol::located`](crate::Symbol::located). `false` by default, as in `perf`.
    #[must_use]
    pub fn locates(mut self, wanted: bool) -> Self {
        self.locates = wanted;
        self
    }

    /// Sets whether functions of an image that have a name without a path in common are called after file and line as well, in the
    /// answers to one call: `step (parser.rs:12)`. Names of line tables without more, and of static functions of C, are such names.
    /// `true` by default; `perf` shows the bare name of all.
    #[must_use]
    pub fn tells_apart(mut self, wanted: bool) -> Self {
        self.merges_same_names = !wanted;
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

    /// Sets where inlined calls and lines are kept from one run to the next, by address: 32 MiB at most, for files of debug
    /// information that no stranger made. They are read again where such a file changed. None by default.
    #[must_use]
    pub fn answer_cache(mut self, cache: Option<PrivateCache>) -> Self {
        self.answer_cache = cache;
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
            kernel.get_or_init(|| symbols.map(RunningKernel::Whole));
        }
        Symbolizer {
            style: self.style,
            query: self.query,
            locates: self.locates,
            tells_apart: !self.merges_same_names,
            threads: if self.threads == 0 {
                rprof_parallel::available()
            } else {
                self.threads
            },
            debug_files: self.debug_files,
            images: OnceMap::default(),
            kernel,
            kernel_cache: self.kernel_cache,
            answer_cache: self.answer_cache,
            whole_kernel: OnceLock::new(),
            kernel_bounds: OnceLock::new(),
            loads_kernel: AtomicBool::new(false),
            kernel_given,
            vmlinux: self.vmlinux.map(|path| Vmlinux::open(&path)),
            refused: OnceLock::new(),
        }
    }
}
