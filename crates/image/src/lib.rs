//! ELF images: which file is meant, opening it safely, and the parts of it that need no symbols.
//!
//! An image is an ELF file, the running kernel, one of its modules, or the vdso. Paths of images
//! come from recordings and processes and may lead anywhere, so there are two ways to open
//! what others choose: [`RegularFile::open`] (which [`ImageFile::open`] goes by) for a path as this program sees it,
//! and [`FileView`] for the files of a process. This crate knows neither symbols nor unwinding.
//!
//! | module | holds |
//! |---|---|
//! | [`allowance`] | [`Allowance`]: how much of something strangers may use up in a time |
//! | [`identity`] | [`ImageKey`]: the image that is meant, and how to recognise it; [`FileIdentity`]: the same of one file |
//! | [`open`](mod@open) | [`ImageFile`]: the bytes of a regular file |
//! | [`open_error`] | [`OpenError`]: why a file is not used |
//! | [`regular_file`] | [`LocatedFile`], [`RegularFile`]: a file that is looked at before it is opened |
//! | [`file_reader`] | [`FileReader`]: parts of a file by `pread`, for parsers |
//! | [`file_view`] | [`FileView`]: the file system as one process sees it, and may read it |
//! | [`credentials`] | [`Credentials`]: doing something with the rights of another process |
//! | [`file_version`] | [`FileVersion`]: state of a file, by which it is seen that it changed |
//! | [`find`] | [`MappedFile`]: the paths that may lead to what a process has mapped |
//! | [`lasting`] | [`LastingPlaces`]: whether a file is likely to stay where it is |
//! | [`memory_budget`] | [`MemoryBudget`]: what the files of one analysis may take together |
//! | [`notes`] | build-ids of ELF files and of bare notes |
//! | [`patience`] | [`PatientCalls`]: reading what may never answer |
//! | [`segments`] | [`Segments`]: file offset to SVMA and back |
//! | [`vdso`] | a copy of this process's vdso, and its predecessor, the vsyscall page |
//! | [`kcore`] | code of the running kernel, as it is in memory |
//! | [`kernel`] | build-ids of the running kernel and its modules, and where modules lie |
//! | [`reason`] | [`Reason`]: why an address has no name |
//! | [`remote`] | [`RemoteFiles`]: a source of files that this machine lacks |

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
pub use notes::{build_id_in_notes, build_id_of};
pub use object::ReadRef;
pub use open::ImageFile;
pub use open_error::OpenError;
pub use patience::{Patience, PatientCalls};
pub use reason::Reason;
pub use regular_file::{LastLink, LocatedFile, RegularFile};
pub use remote::{RemoteFile, RemoteFiles, RemoteKind};
pub use rprof_records::BuildId;
pub use segments::{Segment, Segments};
pub use vdso::{vdso_image, vsyscall};
