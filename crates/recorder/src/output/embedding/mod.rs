//! Embedding: files that a report will need, and that will be gone by then, in the recording itself.
//!
//! ```text
//!   sideband --> runtimes: perf maps and jitdumps, copied as they grow
//!   samples  --> images: programs and libraries that samples lie in, copied if they may be gone in the end
//!                                 --> a section of the recording, which perf skips
//! ```
//!
//! A file in a process's own mount namespace goes with the process, as does a file that is deleted;
//! a perf map in `/tmp` may be that of the next process with the same number. So rprof copies them
//! while it records. It holds none of them open: that would keep mounts in use, and the space of deleted files.
//! Everything is bounded, and what is left out becomes a [`Notice`].

mod file_embedder;
mod images;
mod naming_parts;
mod notices;
mod patience;
mod runtimes;
mod seen;
mod selection;
mod worker;

pub use notices::{EmbeddedName, NotEmbedded, Notice};
pub use selection::Embedding;
pub(crate) use worker::EmbeddingThread;
