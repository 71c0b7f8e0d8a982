//! Where records go: a file, or a stream.

use std::fs::File;
use std::io;

use rprof_perfdata::{
    EventDescription, FeatureSections, GrowingWriter, PipeWriter, RecordWriter, WriteOptions,
};

/// A file that is whole at every checkpoint, or a stream that goes on
/// as it comes.
#[derive(Debug)]
pub(crate) enum Sink {
    File(GrowingWriter<File>),
    Stream(PipeWriter<File>),
}

impl Sink {
    /// Begins a file; `features` as for a stream.
    pub(crate) fn file(
        out: File,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<Sink> {
        GrowingWriter::create(out, events, features, options).map(Sink::File)
    }

    /// Begins a stream: `features` are those known at the start.
    pub(crate) fn stream(
        out: File,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<Sink> {
        PipeWriter::create(out, events, features, options).map(Sink::Stream)
    }

    pub(crate) fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(file) => file.write_records(records),
            Sink::Stream(stream) => stream.write_records(records),
        }
    }

    /// What was written so far survives this process, or is on its way.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.checkpoint(),
            Sink::Stream(stream) => stream.checkpoint(),
        }
    }

    /// Bytes so far, as they stand in the file or stream.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Sink::File(file) => file.bytes_written(),
            Sink::Stream(stream) => stream.bytes_written(),
        }
    }

    /// Ends it; answers its length in bytes. A stream gets those of the features
    /// that were not known when it began.
    pub(crate) fn finish(self, features: FeatureSections) -> io::Result<u64> {
        match self {
            Sink::File(file) => file.finish(features),
            Sink::Stream(stream) => stream.finish(features),
        }
    }
}
