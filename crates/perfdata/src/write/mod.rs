//! Writes recordings.

mod compress;
pub mod file;
pub mod growing;
mod header_block;
pub mod options;
pub mod pipe;

use std::io;

use crate::features::FeatureSections;

pub use options::{EventDescription, WriteOptions};

/// Destination for the records of a recording, in reading order.
///
/// [`FileWriter`](file::FileWriter), [`GrowingWriter`](growing::GrowingWriter) and
/// [`PipeWriter`](pipe::PipeWriter) implement it for each form of perf.data. A program that needs
/// merged records without a file implements it itself.
///
/// ```text
///   create --> write_records ... checkpoint --> write_records ... checkpoint --> finish
/// ```
///
/// After an error, a writer of this crate refuses further calls: readers could not separate valid
/// records from damage. Earlier data stays readable.
///
/// # Examples
/// A destination that only counts samples:
///
/// ```
/// use std::io;
/// use rprof_perfdata::{FeatureSections, RecordWriter};
/// use rprof_records::{Endian, RawBytes, RawRecord, RecordType};
///
/// #[derive(Default)]
/// struct SampleCounter {
///     samples: u64,
///     bytes: u64,
/// }
///
/// impl RecordWriter for SampleCounter {
///     fn write_records(&mut self, mut records: &[u8]) -> io::Result<()> {
///         self.bytes += records.len() as u64;
///         while let Some(raw) = RawRecord::parse(RawBytes::from(records), Endian::NATIVE) {
///             self.samples += u64::from(raw.kind == RecordType::SAMPLE);
///             records = &records[raw.size()..];
///         }
///         Ok(())
///     }
///
///     fn bytes_written(&self) -> u64 {
///         self.bytes
///     }
///
///     fn finish(self, _: FeatureSections) -> io::Result<u64> {
///         Ok(self.bytes)
///     }
/// }
/// ```
pub trait RecordWriter {
    /// Appends whole, consecutive records in the recording's byte order.
    ///
    /// # Errors
    /// Fails if the destination does, as with a full disk. [`io::ErrorKind::BrokenPipe`] means that
    /// the reader of a stream exited.
    fn write_records(&mut self, records: &[u8]) -> io::Result<()>;

    /// Appends one record with its payload (AUXTRACE), at most 60 KiB in total, uncompressed. The
    /// default implementation does nothing.
    ///
    /// # Errors
    /// Fails like [`write_records`](Self::write_records), and with [`io::ErrorKind::InvalidInput`]
    /// if the record is too long.
    fn write_with_payload(&mut self, _record: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Flushes all records so far. In a file, they survive this process. In a stream, they reach
    /// the reader. The default does nothing.
    ///
    /// # Errors
    /// Fails like [`write_records`](Self::write_records).
    fn checkpoint(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the number of compressed bytes so far, for size limits. Files count only records,
    /// streams everything.
    fn bytes_written(&self) -> u64;

    /// Ends the recording with its sections, and returns its length in bytes. `features` must
    /// include the sections passed at the start.
    ///
    /// # Errors
    /// Fails like [`write_records`](Self::write_records).
    fn finish(self, features: FeatureSections) -> io::Result<u64>
    where
        Self: Sized;
}
