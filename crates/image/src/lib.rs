//! Locates, identifies and opens ELF images, and reads the parts that need no symbols.
//!
//! An image is an ELF file, the running kernel, a kernel module, or the vdso. Paths of images come
//! from recordings and processes, so they are untrusted. Use [`RegularFile::open`] (or
//! [`ImageFile::open`], which calls it) for a path in this program's namespace. Use [`FileView`]
//! for the files of a process.
//!
//! This crate must not read symbols or unwind stacks.
//!
//! | module | contents |
//! |---|---|
//! | [`allowance`] | [`Allowance`]: token-bucket limits for untrusted input |
//! | [`identity`] | [`ImageKey`], [`FileIdentity`]: identity of an image, and of one file |
//! | [`open`](mod@open) | [`ImageFile`]: the bytes of a regular file |
//! | [`open_error`] | [`OpenError`]: why a file cannot be used |
//! | [`regular_file`] | [`LocatedFile`], [`RegularFile`]: checks the file type before opening |
//! | [`file_reader`] | [`FileReader`]: parts of a file by `pread`, for parsers |
//! | [`file_view`] | [`FileView`]: the file system as one process sees it and may read it |
//! | [`credentials`] | [`Credentials`]: file access with the rights of another process |
//! | [`file_version`] | [`FileVersion`]: detects that a file has changed |
//! | [`find`] | [`MappedFile`]: search for the file behind a mapping |
//! | [`lasting`] | [`LastingPlaces`]: whether a file will probably stay in place |
//! | [`memory_budget`] | [`MemoryBudget`]: memory limit shared by the files of one analysis |
//! | [`needed`] | libraries that a file loads |
//! | [`notes`] | build-ids of ELF files and of bare notes, and probes of ELF files |
//! | [`patience`] | [`PatientCalls`]: reads with a timeout |
//! | [`segments`] | [`Segments`]: file offset to SVMA and back |
//! | [`vdso`] | copies of the vdso, and its predecessor, the vsyscall page |
//! | [`kcore`] | code of the running kernel, from memory |
//! | [`kernel`] | build-ids of the running kernel and its modules, and module addresses |
//! | [`reason`] | [`Reason`]: why an address has no name |
//! | [`remote`] | [`RemoteFiles`]: a source of files missing on this machine |

pub mod allowance;
pub mod credentials;
pub mod file_reader;
pub mod file_version;
pub mod file_view;
pub mod find;
pub mod identity;
pub mod kcore;
pub mod kernel;
pub mod lasting;
pub mod memory_budget;
pub mod needed;
pub mod notes;
pub mod open;
pub mod open_error;
pub mod patience;
pub mod reason;
pub mod regular_file;
pub mod remote;
pub mod segments;
pub mod vdso;

pub use allowance::{Allowance, Allowances, Rate};
pub use credentials::Credentials;
pub use file_reader::FileReader;
pub use file_version::FileVersion;
pub use file_view::FileView;
pub use find::MappedFile;
pub use identity::{FileIdentity, ImageKey, ImageSource};
pub use kcore::kernel_code;
pub use kernel::{KernelModule, loaded_modules, module_build_id, running_kernel_build_id};
pub use lasting::LastingPlaces;
pub use memory_budget::{MemoryBudget, MemoryLease};
pub use needed::{NeededLibraries, needed_libraries};
pub use notes::{UsdtProbe, build_id_in_notes, build_id_of, usdt_probes};
pub use object::ReadRef;
pub use open::ImageFile;
pub use open_error::OpenError;
pub use patience::{Patience, PatientCalls};
pub use reason::Reason;
pub use regular_file::{LastLink, LocatedFile, RegularFile};
pub use remote::{RemoteFile, RemoteFiles, RemoteKind};
pub use rprof_records::BuildId;
pub use segments::{Segment, Segments};
pub use vdso::{vdso_image, vdso_of_process, vsyscall};
