//! Files that a command makes: what may be written at a path, and writing it whole or not at all.
//!
//! The folder that an output goes to may belong to somebody else, who may have put a link, a FIFO or a device
//! under the name that will be written. So every output is classified first ([`Destination`]):
//!
//! | at the path stands | what happens |
//! |---|---|
//! | nothing, a regular file | a new file takes its place; the old one is never written into |
//! | a link to a regular file, or to nothing | the link is replaced, what it leads to stays as it is |
//! | a link to `/proc/self/fd/N`, directly or through other links | the descriptor is written to, if the user typed the name |
//! | a link to anything else, or into `/proc`, `/sys` or `/dev` | refused |
//! | a FIFO that has a reader | written to, if the user typed the name |
//! | `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/tty` | written to, if the user typed the name |
//! | `/dev/stdout`, `/dev/stderr`, `/dev/fd/N`, `/proc/self/fd/N` | the descriptor is written to |
//! | any other device, a socket, a directory | refused |
//!
//! | module | owns |
//! |---|---|
//! | [`destination`] | [`Destination`]: the table above |
//! | [`pending`] | [`PendingFile`]: results, which appear under their name once they are whole; [`Readers`] |
//! | [`recording_file`] | [`RecordingFile`]: recordings, which grow under their name, and keep the one before |
//! | [`own_file`] | [`OwnFile`]: a file that this process made, whatever stands under its name by now |
//! | [`unnamed_file`] | [`UnnamedFile`]: temporary files that no name leads to |
//! | [`temporary`] | [`private_folder`]: temporary files that nobody else reaches |
//! | [`folder`] | [`Folder`]: a folder by its descriptor, in which no link is followed |
//! | [`private_cache`] | [`PrivateCache`]: files that are kept for this user from one run to the next |
//! | [`scratch`] | [`ScratchFolder`]: the same for many files, found by the next run if this one is killed |
//!
//! Nothing here is about what is written.

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
