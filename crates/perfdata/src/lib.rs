//! The perf.data container: reading and writing.
//!
//! This crate knows where things stand in a file and in a pipe-mode stream. It
//! does not know what a sample means.
//!
//! | module | holds |
//! |---|---|
//! | [`reader`] | [`PerfData`]: an opened recording |
//! | [`blocks`] | [`Blocks`]: the records in pieces of about a MiB, decompressed |
//! | [`walk`] | [`Walk`]: record after record through a piece |
//! | [`events`] | [`Events`]: which record belongs to which event |
//! | [`user_records`] | [`UserRecord`]: what recorders write themselves, typed |
//! | [`features`] | [`Feature`] and the sections that rprof interprets |
//! | [`writer`] | [`FileWriter`]: a file |
//! | [`growing`] | [`GrowingWriter`]: a file that is whole whenever its writer dies |
//! | [`pipe_writer`] | [`PipeWriter`]: a stream |
//! | [`mod@rewrite`] | [`rewrite()`]: a recording written anew |
//! | [`output`] | [`OutputFile`]: where a recording goes, without clobbering |
//!
//! The reference is `tools/perf/Documentation/perf.data-file-format.txt` in the
//! kernel's source tree.

pub mod blocks;
mod compress;
mod contents;
pub mod error;
pub mod events;
pub mod features;
mod folder;
pub mod growing;
mod header;
mod inflate;
pub mod output;
mod pipe;
pub mod pipe_writer;
pub mod reader;
pub mod rewrite;
pub mod user_records;
pub mod walk;
pub mod writer;

pub use blocks::{Block, Blocks};
pub use error::{Damage, Error};
pub use events::{Event, Events};
pub use features::{BuildIdEntry, Feature, FeatureSections, KeptFile, KeptKind};
pub use growing::GrowingWriter;
pub use output::OutputFile;
pub use pipe_writer::PipeWriter;
pub use reader::{Mode, PerfData};
pub use rewrite::{Rewritten, rewrite, rewrite_pipe};
pub use user_records::{UserRecord, UserRecordError};
pub use walk::{Walk, Walked};
pub use writer::{EventDescription, FileWriter, WriteOptions};
