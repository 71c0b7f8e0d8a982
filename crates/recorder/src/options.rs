//! Where to record to and how, and what can go wrong.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rprof_perfdata::output::OutputError;
use rprof_sampler::SessionError;

use crate::output::RotationPolicy;

/// What keeps a recording from being made, or from being finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The events could not be opened or started, or the command could not be prepared or executed.
    /// No file was written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The output file could not be made.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing failed. The records before are in the file and can be read.
    #[error("cannot write {}: {source}; what was recorded before is in the file and can be read", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The descriptions of tracepoints could not be read.
    #[error("cannot read what the tracepoints' payloads hold: {0}")]
    TracingData(#[source] io::Error),
    /// Waiting for the command failed.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
    /// The thread that writes could not be started, or ended early.
    #[error("the thread that writes the file failed: {0}")]
    Thread(#[source] io::Error),
}

/// Where a recording goes.
#[derive(Debug)]
pub enum Output {
    /// A file of this name; one that exists makes room.
    File(PathBuf),
    /// A stream in pipe mode. Nothing else must be written to it.
    Stream(File),
}

/// Where to record to, and how.
#[derive(Debug)]
pub struct RecordOptions {
    /// Where.
    pub output: Output,
    /// Level at which zstd compresses the records, 1 to 22; `None` for not at all.
    pub compression: Option<i32>,
    /// The recorder's own command line, for the file's header.
    pub command_line: Vec<String>,
    /// When to go on in another file; `None` for never. A stream has no other file.
    pub rotation: Option<RotationPolicy>,
    /// Bytes of records, of all files together, at which nothing more is written.
    pub max_bytes: Option<u64>,
    /// Turn registers and stack bytes of samples into callchains, rather than write them.
    pub unwind: bool,
    /// Gets a byte when [`Recording::writer`](crate::Recording::writer) has something to tell.
    pub notify: Option<UnixStream>,
}

impl RecordOptions {
    /// One file or stream, not compressed.
    pub fn new(output: Output, command_line: Vec<String>) -> RecordOptions {
        RecordOptions {
            output,
            compression: None,
            command_line,
            rotation: None,
            max_bytes: None,
            unwind: true,
            notify: None,
        }
    }
}
