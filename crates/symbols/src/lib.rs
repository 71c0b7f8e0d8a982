//! Symbolizes image offsets: functions, inlined calls and source lines.
//!
//! The input is an image and offsets in it. An image is an ELF file, the running kernel, a kernel
//! module, or the vdso. This crate must not depend on perf records, samples or processes. Callers
//! translate addresses to (image, offset) first.
//!
//! | module | contents |
//! |---|---|
//! | [`symbolizer`] | [`Symbolizer`]: opens each image once, resolves batches |
//! | [`elf`] | [`ElfSymbols`]: the symbol table of one ELF file |
//! | `archive` | ELF files within a zip file |
//! | `elf_image` | an ELF image together with its debug files |
//! | `debug` | the search for debug files |
//! | `dwarf` | functions, inlined calls and lines from debug information |
//! | `stored_answers` | on-disk cache of results from debug information |
//! | `reconcile` | merges symbol table and debug information into one result |
//! | `same_names` | disambiguates functions of the same name by file and line |
//! | `linkage_names` | disambiguates functions by parameters or linkage name |
//! | `static_names` | disambiguates functions of the same linkage name by their file |
//! | `image_functions` | ranges of functions, from unwinding information |
//! | `located` | functions without symbols, named after the image and their start |
//! | `signal_trampoline` | detects signal trampolines by their bytes |
//! | [`kernel`] | [`KernelSymbols`]: `/proc/kallsyms`, and a given `vmlinux` |
//! | [`demangle`] | Rust and C++ names, with limits on time and length |
//! | [`frames`] | the result: [`Frames`] around a [`Symbol`] |
//!
//! Among several symbols at an address, the crate chooses as `perf` does, so that stacks from both
//! are comparable. [`elf`] lists the rules, and the few cases where `perf` is wrong and this crate
//! is right.
//!
//! Names may contain any character except NUL. Escape them before printing to a terminal or into
//! markup.

pub mod demangle;
pub mod elf;
pub mod frames;
pub mod kernel;
pub mod symbolizer;

mod archive;
mod debug;
mod dwarf;
mod elf_image;
mod image_functions;
mod linkage_names;
mod located;
mod memory;
mod once_map;
mod pages;
mod reconcile;
mod same_names;
mod signal_trampoline;
mod static_names;
mod stored_answers;

pub use demangle::Style;
pub use dwarf::LineRange;
pub use elf::{ElfError, ElfSymbol, ElfSymbols, has_generated_code, is_by_ghc};
pub use frames::{Frames, SourceLine, Symbol, SymbolFrame};
pub use kernel::{KernelError, KernelSymbol, KernelSymbols, VmlinuxError};
pub use memory::MemoryLimits;
pub use rprof_image::{BuildId, ImageFile, ImageKey, ImageSource, Reason, RemoteFiles};
pub use symbolizer::{
    Code, FunctionBounds, KernelPrefetch, Lookup, PartialLookup, Symbolizer, SymbolizerBuilder,
};
