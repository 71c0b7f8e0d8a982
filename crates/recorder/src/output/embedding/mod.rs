//! Embeds files in the recording that reports need and that may disappear.
//!
//! ```text
//!   sideband --> runtimes: perf maps and jitdumps, copied as they grow
//!   samples  --> images: programs and libraries that samples lie in, copied if they may be gone in the end
//!                                 --> a section of the recording, which perf skips
//! ```
//!
//! A deleted file, or one in a process's own mount namespace, disappears with the process. A perf
//! map in `/tmp` may be replaced by a later process with the same pid. So rprof copies them during
//! the recording. It holds no file open, because that keeps mounts busy and deleted files on disk.
//! All sizes are limited, and omissions become [`Notice`]s.

mod file_embedder;
mod images;
mod naming_parts;
mod notices;
mod runtimes;
mod seen;
mod selection;
mod worker;

pub use notices::{EmbeddedName, NotEmbedded, Notice};
pub use selection::Embedding;
pub(crate) use worker::EmbeddingThread;
