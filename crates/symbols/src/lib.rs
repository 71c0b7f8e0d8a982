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
//! | [`image`] | [`ImageKey`]: which image is meant, and how to know it again |
//! | [`elf`] | [`ElfSymbols`]: the symbol table of one ELF file |
//! | `archive` | ELF files within a zip file |
//! | `elf_image` | an ELF image together with the files that complete it |
//! | `debug` | the search for these files |
//! | `dwarf` | functions, inlined calls and lines from debug information |
//! | `reconcile` | symbol table and debug information, made one answer |
//! | [`kernel`] | [`KernelSymbols`]: `/proc/kallsyms`, a given `vmlinux`, and the identity of kernel and modules |
//! | [`vdso`] | the bytes of this process's own vdso, and its predecessor, the vsyscall page |
//! | [`demangle`] | Rust and C++ names, bounded in time and length |
//! | [`frames`] | the answer: [`Frames`] around a [`Symbol`] |
//! | [`reason`] | [`Reason`]: why there is no answer |
//! | [`remote`] | [`RemoteFiles`]: whoever can get files that are not on this machine |
//! | [`build_id`] | [`BuildId`], the identity of an ELF file |
//!
//! Which of several symbols names an address follows what `perf` does, so that
//! stacks from both can be compared; [`elf`] lists the rules and the few places
//! where `perf` is wrong and this crate is not.
//!
//! Names come out as they are in the file. They may hold any character but NUL:
//! whoever prints them to a terminal or into markup must escape them.

pub mod build_id;
pub mod demangle;
pub mod elf;
pub mod frames;
pub mod image;
pub mod kernel;
pub mod reason;
pub mod remote;
pub mod symbolizer;
pub mod vdso;

mod archive;
mod debug;
mod dwarf;
mod elf_image;
mod file;
mod once;
mod reconcile;

pub use build_id::BuildId;
pub use demangle::Style;
pub use elf::{ElfError, ElfSymbol, ElfSymbols};
pub use file::ImageFile;
pub use frames::{Frame, Frames, SourceLine, Symbol};
pub use image::{ImageKey, ImageKind};
pub use kernel::{KernelError, KernelSymbol, KernelSymbols, VmlinuxError};
pub use reason::Reason;
pub use remote::{RemoteFile, RemoteFiles, RemoteKind};
pub use symbolizer::{Begun, Extents, KernelAhead, Lookup, Symbolizer, SymbolizerBuilder};
