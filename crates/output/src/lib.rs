//! Output files of a command: which paths are safe to write, and atomic replacement.
//!
//! The output folder may belong to another user, who may have placed a link, a FIFO or a device at
//! the output's name. So [`Destination`] classifies every path first:
//!
//! | at the path | action |
//! |---|---|
//! | nothing, a regular file | a new file replaces it; the old file is never modified |
//! | a link to a regular file, or a dangling link | the link is replaced, not its target |
//! | a link to `/proc/self/fd/N`, also through links | written to, if the user typed the name |
//! | a link to anything else, or into `/proc`, `/sys` or `/dev` | refused |
//! | a FIFO that has a reader | written to, if the user typed the name |
//! | `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/tty` | written to, if the user typed the name |
//! | `/dev/stdout`, `/dev/stderr`, `/dev/fd/N`, `/proc/self/fd/N` | the descriptor is written to |
//! | any other device, a socket, a directory | refused |
//!
//! | module | contents |
//! |---|---|
//! | [`destination`] | [`Destination`]: the table above |
//! | [`pending`] | [`PendingFile`]: results, named when complete; [`Readers`] |
//! | [`recording_file`] | [`RecordingFile`]: a recording; keeps the previous one |
//! | [`own_file`] | [`OwnFile`]: a file of this process, identified by inode |
//! | [`unnamed_file`] | [`UnnamedFile`]: temporary files without a name |
//! | [`temporary`] | [`private_folder`]: temporary folders that only their owner can enter |
//! | [`folder`] | [`Folder`]: an open folder whose operations follow no links |
//! | [`private_cache`] | [`PrivateCache`]: the user's cache files, kept between runs |
//! | [`scratch`] | [`ScratchFolder`]: a temporary folder, removed even after a crash |
//!
//! The crate knows nothing about the contents of the files.

pub mod destination;
mod error;
pub mod folder;
mod kind;
mod link;
mod named_descriptor;
pub mod own_file;
pub mod pending;
pub mod private_cache;
pub mod recording_file;
pub mod scratch;
pub mod temporary;
pub mod unnamed_file;

pub use destination::{Choice, Destination};
pub use error::OutputError;
pub use folder::Folder;
pub use kind::Kind;
pub use named_descriptor::named_descriptor;
pub use own_file::{OwnFile, Whereabouts};
pub use pending::{PendingFile, Readers};
pub use private_cache::PrivateCache;
pub use recording_file::RecordingFile;
pub use scratch::{ScratchFolder, remove_abandoned};
pub use temporary::private_folder;
pub use unnamed_file::UnnamedFile;
