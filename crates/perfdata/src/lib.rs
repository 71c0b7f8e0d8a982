//! The perf.data container: reading and writing.
//!
//! This crate does not interpret samples.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | [`PerfData`]: an opened recording, its records and events |
//! | [`mod@write`] | [`RecordWriter`]; [`FileWriter`], [`GrowingWriter`], [`PipeWriter`] |
//! | [`user_records`] | [`UserRecord`]: records written by recorders, typed |
//! | [`features`] | [`Feature`] and the sections that rprof interprets |
//! | [`mod@rewrite`] | [`rewrite()`]: copies a recording into a new container |
//!
//! # Examples
//!
//! Writes samples to a buffer, and reads them back. For time order see [`RecordsByTime`].
//!
//! ```
//! use std::io::Cursor;
//! use std::path::Path;
//!
//! use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
//! use rprof_records::{Attr, Endian, Misc, RecordType, Sample};
//! use rprof_records::{SampleFields, SampleLayout, SampleType};
//!
//! let attr = Attr { sample_type: SampleType::IP, ..Attr::default() };
//! let mut record = Vec::new();
//! SampleFields { ip: 0x1234, ..SampleFields::default() }.encode(
//!     Misc::USER,
//!     &SampleLayout::new(&attr, Endian::NATIVE),
//!     &mut record,
//! )?;
//! let event = EventDescription { attr, name: "cycles".into(), ids: vec![] };
//! let mut bytes = Vec::new();
//! let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event])?;
//! writer.write_records(&record)?;
//! writer.finish(FeatureSections::new(Endian::NATIVE))?;
//!
//! let data = PerfData::read(&bytes[..], Path::new("example"))?;
//! let events = data.events();
//! let mut seen = Vec::new();
//! for block in data.blocks() {
//!     let block = block?;
//!     for found in block.walk() {
//!         if found.record.kind == RecordType::SAMPLE
//!             && let Some(index) = events.of_sample(&found.record)
//!         {
//!             let event = &events.list()[index];
//!             let sample = Sample::parse(found.record.body, &event.layout)?;
//!             seen.push((&*event.name, sample.ip()));
//!         }
//!     }
//! }
//! assert_eq!(seen, [("cycles", Some(0x1234))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reference is `tools/perf/Documentation/perf.data-file-format.txt` in the kernel's source
//! tree.

mod aux_tally;
mod contents;
pub mod error;
pub mod features;
mod header;
pub mod read;
pub mod rewrite;
pub mod user_records;
pub mod write;

pub use aux_tally::AuxTally;
pub use error::{Damage, Error};
pub use features::{BuildIdEntry, EmbeddedFile, EmbeddedKind, Feature, FeatureSections};
pub use read::blocks::{Block, Blocks};
pub use read::by_time::{RecordsByTime, TimedRecord};
pub use read::events::{Events, RecordedEvent};
pub use read::reader::{Mode, PerfData};
pub use read::walk::{RecordAt, Walk};
pub use rewrite::{Rewritten, rewrite, rewrite_pipe};
pub use user_records::{UserRecord, UserRecordError};
pub use write::file::FileWriter;
pub use write::growing::GrowingWriter;
pub use write::pipe::PipeWriter;
pub use write::{EventDescription, RecordWriter, WriteOptions};
