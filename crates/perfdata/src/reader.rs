//! An opened recording.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rprof_records::Endian;

use crate::blocks::Blocks;
use crate::contents::Contents;
use crate::error::Error;
use crate::events::Events;
use crate::features::FeatureSections;
use crate::header::{FileHeader, PIPE_HEADER_SIZE, endian_of};
use crate::pipe::{PipeHeader, is_pipe};

/// How a recording is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With a header that says where everything is.
    File,
    /// A stream in which the header, too, comes as records.
    Pipe,
}

/// A recording: what its header says, and its records.
pub struct PerfData {
    contents: Contents,
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
    /// Opens a file, in file or pipe mode, in either byte order.
    ///
    /// # Errors
    /// [`Error`], when it is no recording or its header is beyond reading.
    /// Damage further on is no error: see [`Blocks::damage`].
    pub fn open(path: &Path) -> Result<PerfData, Error> {
        PerfData::parse(Contents::open(path)?, path)
    }

    /// Reads a stream to its end. `name` is used in messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(from: impl Read, name: &Path) -> Result<PerfData, Error> {
        PerfData::parse(Contents::read(from, name)?, name)
    }

    fn parse(contents: Contents, path: &Path) -> Result<PerfData, Error> {
        let Some(endian) = endian_of(&contents) else {
            let start = &contents[..contents.len().min(8)];
            return Err(Error::NotPerfData {
                path: path.to_owned(),
                found: start.escape_ascii().to_string(),
            });
        };
        let (mode, data, events, features, warnings);
        if is_pipe(&contents, endian) {
            mode = Mode::Pipe;
            data = PIPE_HEADER_SIZE..contents.len();
            let blocks = Blocks::new(&contents[data.clone()], data.start as u64, endian);
            let header = PipeHeader::scan(blocks, endian);
            (events, features) = (header.events, header.features);
            warnings = Vec::new();
        } else {
            mode = Mode::File;
            let header = FileHeader::parse(&contents, endian, path)?;
            let described = header.features.event_descriptions().unwrap_or_default();
            let list = (header.attrs.into_iter().enumerate())
                .map(|(i, (attr, ids))| {
                    // By id where there are ids, else by place.
                    let name = (described.iter())
                        .find(|d| !ids.is_empty() && d.ids.first() == ids.first())
                        .or_else(|| {
                            described
                                .get(i)
                                .filter(|d| ids.is_empty() || d.ids.is_empty())
                        })
                        .map_or(String::new(), |d| d.name.clone());
                    (attr, name, ids)
                })
                .collect();
            events = Events::new(list, endian);
            features = header.features;
            data = header.data;
            warnings = header.warnings;
        }
        if events.list().is_empty() {
            return Err(Error::NoEvents {
                path: path.to_owned(),
            });
        }
        Ok(PerfData {
            contents,
            path: path.to_owned(),
            endian,
            mode,
            events,
            features,
            data,
            warnings,
        })
    }

    /// The name it was opened under.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Byte order of the recorder.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// How it is laid out.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The recorded events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// What the header says of the machine and the run.
    pub fn features(&self) -> &FeatureSections {
        &self.features
    }

    /// What was odd about the header; reading went on.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Length of the data in bytes, as it stands in the file.
    pub fn data_len(&self) -> u64 {
        self.data.len() as u64
    }

    /// The records, from the first, in blocks. Can be asked for any number of times.
    pub fn blocks(&self) -> Blocks<'_> {
        let data = self.contents.get(self.data.clone()).unwrap_or_default();
        Blocks::new(data, self.data.start as u64, self.endian)
    }
}
