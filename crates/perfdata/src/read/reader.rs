//! An opened recording.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_records::Endian;

use crate::contents::Contents;
use crate::error::Error;
use crate::features::{Feature, FeatureSections};
use crate::header::{FileHeader, PIPE_HEADER_SIZE, endian_of, is_magic};
use crate::read::blocks::{Blocks, DataRange};
use crate::read::by_time::RecordsByTime;
use crate::read::events::Events;
use crate::read::folder;
use crate::read::pipe::{PipeHeader, is_pipe, name_events};
use crate::read::walk::{Walk, tracing_data};
use crate::user_records::EventUpdate;

/// Recorders write header records first, so only these bytes are searched.
const HEADER_RECORDS_WITHIN: u64 = 256 << 10;

/// Layout of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// File with a header that locates all other data.
    File,
    /// Stream, which contains its header as records.
    Pipe,
}

/// Opened recording: header and records.
pub struct PerfData {
    contents: Arc<Contents>,
    others: folder::Named,
    path: PathBuf,
    endian: Endian,
    mode: Mode,
    events: Events,
    features: FeatureSections,
    data: Range<usize>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for PerfData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfData")
            .field("path", &self.path)
            .field("mode", &self.mode)
            .field("endian", &self.endian)
            .field("events", &self.events.list().len())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

impl PerfData {
    /// Opens a recording in either byte order: a file in file or pipe mode, or a folder.
    ///
    /// # Errors
    /// Returns [`Error`] if it is not a recording, or its header is unusable.
    /// [`blocks`](Self::blocks) returns later damage.
    pub fn open(path: &Path) -> Result<PerfData, Error> {
        let main = path.join(folder::MAIN);
        if !path.is_dir() || main.symlink_metadata().is_err() {
            return PerfData::parse(Contents::open(path)?, path);
        }
        let mut data = PerfData::parse(Contents::open_no_link(&main)?, path)?;
        let (others, warnings) = folder::record_files(path)?;
        data.others = others;
        data.warnings.extend(warnings);
        Ok(data)
    }

    /// Reads a stream to its end. `name` is for messages. A long stream goes to an unlinked
    /// temporary file.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn read(from: impl Read, name: &Path) -> Result<PerfData, Error> {
        PerfData::parse(Contents::read(from, name)?, name)
    }

    /// Returns whether a file that starts with these bytes is a recording. Needs at least 8 bytes.
    pub fn is_magic(start: &[u8]) -> bool {
        is_magic(start)
    }

    fn parse(contents: Contents, path: &Path) -> Result<PerfData, Error> {
        let Some(endian) = endian_of(&contents) else {
            let start = &contents[..contents.len().min(8)];
            return Err(Error::NotPerfData {
                path: path.to_owned(),
                found: start.escape_ascii().to_string(),
            });
        };
        let contents = Arc::new(contents);
        let (mode, data, mut events, features, mut warnings);
        if is_pipe(&contents, endian) {
            mode = Mode::Pipe;
            data = PIPE_HEADER_SIZE..contents.len();
            let header = PipeHeader::scan(&contents[data.clone()], data.start as u64, endian);
            (events, features) = (header.events, header.features);
            warnings = Vec::new();
        } else {
            mode = Mode::File;
            let mut header = FileHeader::parse(&contents, endian, path)?;
            if header.attrs.is_empty() {
                let described = header.features.event_descriptions().unwrap_or_default();
                header.attrs = described.into_iter().map(|d| (d.attr, d.ids)).collect();
            }
            events = name_events(header.attrs, &header.event_types, &header.features);
            let start = &contents[header.data.clone()];
            handle_header_records(start, endian, &mut events, &mut header.features);
            (features, data, warnings) = (header.features, header.data, header.warnings);
        }
        if events.list().is_empty() {
            return Err(Error::NoEvents {
                path: path.to_owned(),
            });
        }
        if events.are_indistinct() {
            warnings.push(format!(
                "the samples of {} events carry no usable event id: all are counted for the first \
                 event",
                events.list().len()
            ));
        }
        Ok(PerfData {
            contents,
            others: Vec::new(),
            path: path.to_owned(),
            endian,
            mode,
            events,
            features,
            data,
            warnings,
        })
    }

    /// Returns its path or name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the byte order of the recorder.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the layout: file or stream.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the recorded events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Returns the header's sections about the machine and the run.
    pub fn features(&self) -> &FeatureSections {
        &self.features
    }

    /// Returns warnings about recoverable errors of the header.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the length of the data in bytes, before decompression, of all files.
    pub fn data_len(&self) -> u64 {
        let others = self.others.iter().map(|(_, c)| c.len());
        (self.data.len() + others.sum::<usize>()) as u64
    }

    /// Iterates over the records in time order. Memory is bounded if the recording has rounds.
    pub fn records_by_time(&self) -> RecordsByTime<'_> {
        RecordsByTime::new(self.blocks(), &self.events, self.has_rounds())
    }

    /// Returns true if FINISHED_ROUND records apply to the whole recording, not to a folder's file.
    pub(crate) fn has_rounds(&self) -> bool {
        self.others.is_empty()
    }

    /// Iterates over the records in blocks, from the first. May be called repeatedly.
    ///
    /// The files of a folder follow one another. Each is only in its own time order.
    pub fn blocks(&self) -> Blocks<'_> {
        let main = DataRange {
            bytes: self.contents.get(self.data.clone()).unwrap_or_default(),
            base: self.data.start as u64,
            file: if self.others.is_empty() {
                ""
            } else {
                folder::MAIN
            },
        };
        let others = self.others.iter().map(|(name, contents)| DataRange {
            bytes: contents,
            base: 0,
            file: name,
        });
        Blocks::new(std::iter::once(main).chain(others).collect(), self.endian)
    }
}

/// Handles records that exist only at the start of a file: event descriptions, and simpleperf's
/// tracepoint formats.
fn handle_header_records(
    data: &[u8],
    endian: Endian,
    events: &mut Events,
    features: &mut FeatureSections,
) {
    let walk = Walk::new(data, 0, endian);
    for walked in walk.take_while(|walked| walked.offset < HEADER_RECORDS_WITHIN) {
        if let Some((id, update)) = EventUpdate::decode(&walked.record) {
            events.update(id, update);
        } else if !features.has(Feature::TRACING_DATA)
            && let Some(formats) = tracing_data(&walked)
        {
            features.insert(Feature::TRACING_DATA, formats.into_owned());
        }
    }
}
