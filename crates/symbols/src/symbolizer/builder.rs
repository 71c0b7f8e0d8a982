//! [`SymbolizerBuilder`]: settings of a [`Symbolizer`].

use super::Symbolizer;
use crate::debug::DebugFiles;
use crate::dwarf::DwarfQuery;
use crate::kernel::{KernelSymbols, RunningKernel, Vmlinux};
use crate::memory::MemoryLimits;
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

    /// Sets whether inlined calls become frames of their own, from debug information; `true` by
    /// default.
    #[must_use]
    pub fn inlines(mut self, wanted: bool) -> Self {
        self.query.inlines = wanted;
        self
    }

    /// Sets whether frames have source lines, from debug information; `true` by default. Lines take
    /// about as long as inlined calls.
    #[must_use]
    pub fn lines(mut self, wanted: bool) -> Self {
        self.query.lines = wanted;
        self
    }

    /// Sets whether to release files that may disappear: fresh builds, and files on mounts that may
    /// be unmounted. They are copied, or reopened for each batch. Intended for long-running
    /// symbolization. `false` by default.
    #[must_use]
    pub fn releases_files(mut self, wanted: bool) -> Self {
        self.debug_files.lasting = wanted.then(Arc::default);
        self
    }

    /// Sets whether functions known only from unwinding information get a symbol, from the image
    /// name and their start: see [`Symbol::located`](crate::Symbol::located). `false` by default,
    /// as in `perf`.
    #[must_use]
    pub fn locates(mut self, wanted: bool) -> Self {
        self.locates = wanted;
        self
    }

    /// Sets whether functions of one image with equal names get what distinguishes them: parameters,
    /// the hash or the linkage name where that differs, and otherwise file and line: `step
    /// (parser.rs:12)`. Such names come from overloads, line-tables-only debug information and
    /// static C functions. `true` by default; `perf` shows the bare name.
    #[must_use]
    pub fn tells_apart(mut self, wanted: bool) -> Self {
        self.merges_same_names = !wanted;
        self
    }

    /// Sets the number of threads for lookups of one batch in debug information. The default, and
    /// 0, is the number of cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets a folder that replaces `/` for images. Debug files are searched there first. Files in
    /// it count as copies, so inodes are not compared.
    #[must_use]
    pub fn root(mut self, root: Option<PathBuf>) -> Self {
        self.debug_files.root = root;
        self
    }

    /// Sets the debug folders, searched by build-id for `.build-id/xx/yyyy.debug`. `/usr/lib/debug`
    /// by default; none for an empty list.
    #[must_use]
    pub fn debug_dirs(mut self, dirs: Vec<PathBuf>) -> Self {
        self.debug_files.dirs = dirs;
        self
    }

    /// Sets the cache filled by `perf record`, for debug files and missing or replaced images.
    /// `~/.debug` by default; `None` disables it. Read only.
    #[must_use]
    pub fn perf_cache(mut self, dir: Option<PathBuf>) -> Self {
        self.debug_files.perf_cache = dir;
        self
    }

    /// Sets the memory limits for decompression. By default 256 MiB for files of other users, and a
    /// quarter of the machine's memory, at least 1 GiB, for trusted files.
    #[must_use]
    pub fn memory(mut self, memory: MemoryLimits) -> Self {
        self.debug_files.memory = memory;
        self
    }

    /// Sets a source of debug files missing on this machine. None by default.
    #[must_use]
    pub fn remote(mut self, remote: Option<Arc<dyn RemoteFiles>>) -> Self {
        self.debug_files.remote = remote;
        self
    }

    /// Sets kernel symbols from a text in the form of `/proc/kallsyms`, such as one saved with a
    /// recording. It must match the recorded kernel, as build-ids are not checked.
    #[must_use]
    pub fn kernel_list(mut self, list: Vec<u8>) -> Self {
        self.kernel_list = Some(list);
        self
    }

    /// Sets the disk cache for symbols of the running kernel. It saves the 80 ms of reading
    /// `/proc/kallsyms`, if addresses are visible. None by default.
    #[must_use]
    pub fn kernel_cache(mut self, cache: Option<PrivateCache>) -> Self {
        self.kernel_cache = cache;
        self
    }

    /// Sets the disk cache for inlined calls and lines: at most 32 MiB, from trusted debug files.
    /// None by default.
    #[must_use]
    pub fn answer_cache(mut self, cache: Option<PrivateCache>) -> Self {
        self.answer_cache = cache;
        self
    }

    /// Sets the kernel's ELF file, for names, inlined calls and lines of kernels with its build-id.
    /// Modules, and unnamed addresses, still use `/proc/kallsyms`.
    #[must_use]
    pub fn vmlinux(mut self, path: Option<PathBuf>) -> Self {
        self.vmlinux = path;
        self
    }

    /// Builds the symbolizer. Opens no file except a `vmlinux`.
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
