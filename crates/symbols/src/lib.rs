//! Image and offset in, functions and lines out.
//!
//! This crate answers one question: which function lies at this offset of this
//! image, which calls were inlined there, and which line is it? An image is an ELF file, the running kernel, one of its modules, or the
//! vdso. The crate knows nothing of perf records, samples or processes; whoever
//! does turns an address into (image, offset) first and asks here.
//!
//! | module | idea |
//! |---|---|
//! | [`symbolizer`] | [`Symbolizer`]: opens each image once, checks that it is the right one, resolves batches |
//! | [`elf`] | [`ElfSymbols`]: the symbol table of one ELF file |
//! | `archive` | ELF files within a zip file |
//! | `elf_image` | an ELF image together with the files that complete it |
//! | `debug` | the search for these files |
//! | `dwarf` | functions, inlined calls and lines from debug information |
//! | `stored_answers` | what debug information said, as it is stored from one run to the next |
//! | `reconcile` | symbol table and debug information, combined into one answer |
//! | `same_names` | functions of one name, told apart by file and line |
//! | `located` | functions without symbols, by unwinding information |
//! | `signal_trampoline` | code that handlers of signals return to, by its bytes |
//! | [`kernel`] | [`KernelSymbols`]: `/proc/kallsyms`, and a given `vmlinux` |
//! | [`demangle`] | Rust and C++ names, bounded in time and length |
//! | [`frames`] | the answer: [`Frames`] around a [`Symbol`] |
//!
//! The choice among several symbols at an address is that of `perf`, so that
//! stacks from both can be compared; [`elf`] lists the rules and the few places
//! where `perf` is wrong and this crate is not.
//!
//! Names come out as they are in the file. They may hold any character but NUL:
//! whoever prints them to a terminal or into markup must escape them.

pub mod demangle;
pub mod elf;
pub mod frames;
pub mod kernel;
pub mod symbolizer;

mod archive;
mod debug;
mod dwarf;
mod elf_image;
mod located;
mod memory;
mod once_map;
mod pages;
mod reconcile;
mod same_names;
mod signal_trampoline;
mod stored_answers;

pub use demangle::Style;
pub use dwarf::LineRange;
pub use elf::{ElfError, ElfSymbol, ElfSymbols, is_by_ghc};
pub use frames::{Frame, Frames, SourceLine, Symbol};
pub use kernel::{KernelError, KernelSymbol, KernelSymbols, VmlinuxError};
pub use memory::Memory;
pub use rprof_image::{BuildId, ImageFile, ImageKey, ImageSource, Reason, RemoteFiles};
pub use symbolizer::{
    Code, FunctionBounds, KernelPrefetch, Lookup, PartialLookup, Symbolizer, SymbolizerBuilder,
};
