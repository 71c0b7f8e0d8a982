//! ELF images: which file is meant, opening it safely, and the parts of it that need no symbols.
//!
//! An image is an ELF file, the running kernel, one of its modules, or the vdso. Paths of images
//! come from recordings and may lead anywhere, so [`ImageFile::open`] is the only way in which
//! files are opened as images. This crate knows neither symbols nor unwinding.
//!
//! | module | holds |
//! |---|---|
//! | [`identity`] | [`ImageKey`]: the image that is meant, and how to recognise it; [`FileIdentity`]: the same of one file |
//! | [`open`](mod@open) | [`ImageFile`]: a regular file, mapped |
//! | [`find`] | [`MappedFile`]: the paths that may lead to what a process has mapped |
//! | [`notes`] | build-ids of ELF files and of bare notes |
//! | [`segments`] | [`Segments`]: file offset to SVMA and back |
//! | [`vdso`] | a copy of this process's vdso, and its predecessor, the vsyscall page |
//! | [`kernel`] | build-ids of the running kernel and its modules, and where modules lie |
//! | [`reason`] | [`Reason`]: why an address has no name |
//! | [`remote`] | [`RemoteFiles`]: a source of files that this machine lacks |

pub mod find;
pub mod identity;
pub mod kernel;
pub mod notes;
pub mod open;
pub mod reason;
pub mod remote;
pub mod segments;
pub mod vdso;

pub use find::MappedFile;
pub use identity::{FileIdentity, ImageKey, ImageSource};
pub use kernel::{KernelModule, loaded_modules, module_build_id, running_kernel_build_id};
pub use notes::{build_id_in_notes, build_id_of};
pub use open::{ImageFile, OpenError};
pub use reason::Reason;
pub use remote::{RemoteFile, RemoteFiles, RemoteKind};
pub use rprof_records::BuildId;
pub use segments::{Segment, Segments};
pub use vdso::{vdso_image, vsyscall};
