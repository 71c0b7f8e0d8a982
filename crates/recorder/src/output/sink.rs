//! [`Sink`]: destination of records.

use std::fs::File;
use std::io;

use rprof_perfdata::{
    EventDescription, FeatureSections, GrowingWriter, PipeWriter, RecordWriter, WriteOptions,
};

use super::custom_writer::CustomWriter;

/// Destination of records. Calls for files and streams are static, because there is one per record.
pub(crate) enum Sink {
    /// A file that is valid at every checkpoint.
    File(GrowingWriter<File>),
    Stream(PipeWriter<File>),
    Custom(Box<dyn CustomWriter>),
}

impl Sink {
    pub(crate) fn file(
        out: File,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<Sink> {
        GrowingWriter::create(out, events, features, options).map(Sink::File)
    }

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
            Sink::Custom(writer) => writer.write_records(records),
        }
    }

    pub(crate) fn write_with_payload(&mut self, record: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(file) => file.write_with_payload(record),
            Sink::Stream(stream) => stream.write_with_payload(record),
            Sink::Custom(writer) => writer.write_with_payload(record),
        }
    }

    /// Writes out all records so far, which survive this process in a file.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.checkpoint(),
            Sink::Stream(stream) => stream.checkpoint(),
            Sink::Custom(writer) => writer.checkpoint(),
        }
    }

    /// Returns the bytes so far, after compression.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Sink::File(file) => file.bytes_written(),
            Sink::Stream(stream) => stream.bytes_written(),
            Sink::Custom(writer) => writer.bytes_written(),
        }
    }

    pub(crate) fn finish(self, features: FeatureSections) -> io::Result<u64> {
        match self {
            Sink::File(file) => file.finish(features),
            Sink::Stream(stream) => stream.finish(features),
            Sink::Custom(writer) => writer.finish_boxed(features),
        }
    }
}
