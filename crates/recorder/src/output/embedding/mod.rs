//! Embedding: files that a report will need, and that will be gone by then, in the recording itself.
//!
//! ```text
//!   sideband --> runtimes: perf maps and jitdumps, held open while their processes live
//!           +--> images: programs and libraries, held open; those that nobody finds by their
//!                path in the end are embedded
//!                                 --> a section of the recording, which perf skips
//! ```
//!
//! A file in a process's own mount namespace goes with the process, as does a file that is deleted;
//! a perf map in `/tmp` may be that of the next process with the same number. So rprof takes
//! hold of them while it records. Everything is bounded, and what is left out becomes a [`Notice`].

mod file_embedder;
mod images;
mod mapped_event;
mod notices;
mod patience;
mod runtimes;
mod seen;
mod selection;
mod worker;

pub use notices::{EmbeddedName, NotEmbedded, Notice};
pub use selection::Embedding;
pub(crate) use worker::EmbeddingThread;
