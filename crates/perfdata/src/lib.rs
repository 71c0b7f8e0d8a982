//! The perf.data container: reading and writing.
//!
//! This crate knows where things stand in a file and in a pipe-mode stream. It
//! does not know what a sample means.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | [`PerfData`]: an opened recording, its records and events |
//! | [`mod@write`] | [`RecordWriter`]; [`FileWriter`], [`GrowingWriter`], [`PipeWriter`] |
//! | [`user_records`] | [`UserRecord`]: what recorders write themselves, typed |
//! | [`features`] | [`Feature`] and the sections that rprof interprets |
//! | [`mod@rewrite`] | [`rewrite()`]: a recording written anew |
//!
//! The reference is `tools/perf/Documentation/perf.data-file-format.txt` in the
//! kernel's source tree.

mod contents;
pub mod error;
pub mod features;
mod header;
pub mod read;
pub mod rewrite;
pub mod user_records;
pub mod write;

pub use error::{Damage, Error};
pub use features::{BuildIdEntry, EmbeddedFile, EmbeddedKind, Feature, FeatureSections};
pub use read::blocks::{Block, Blocks};
pub use read::by_time::{RecordsByTime, TimedRecord};
pub use read::events::{Event, Events};
pub use read::reader::{Mode, PerfData};
pub use read::walk::{RecordAt, Walk};
pub use rewrite::{Rewritten, rewrite, rewrite_pipe};
pub use user_records::{UserRecord, UserRecordError};
pub use write::file::FileWriter;
pub use write::growing::GrowingWriter;
pub use write::pipe::PipeWriter;
pub use write::{EventDescription, RecordWriter, WriteOptions};
