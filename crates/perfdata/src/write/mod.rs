//! Writing a recording.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | [`RecordWriter`]: what every writer does |
//! | [`options`] | [`WriteOptions`], [`EventDescription`] |
//! | [`mod@file`] | [`FileWriter`](file::FileWriter): a file |
//! | [`growing`] | [`GrowingWriter`](growing::GrowingWriter): a file that is whole whenever its writer dies |
//! | [`pipe`] | [`PipeWriter`](pipe::PipeWriter): a stream |
//! | `header_block` | the header, attrs and ids of a file |
//! | `compress` | records to COMPRESSED records |

mod compress;
pub mod file;
pub mod growing;
mod header_block;
pub mod options;
pub mod pipe;

use std::io;

use crate::features::FeatureSections;

pub use options::{EventDescription, WriteOptions};

/// A destination for the records of a recording, in the order in which readers are to meet them.
///
/// [`FileWriter`](file::FileWriter), [`GrowingWriter`](growing::GrowingWriter) and
/// [`PipeWriter`](pipe::PipeWriter) implement it, each for a form of perf.data. A program that
/// wants the merged records of a session and no file implements it itself, with the default
/// [`checkpoint`](Self::checkpoint).
///
/// ```text
///   create --> write_records ... checkpoint --> write_records ... checkpoint --> finish
/// ```
///
/// After an error a writer of this crate refuses everything that follows: records behind a gap
/// could not be told from good ones. What went before stays readable.
///
/// # Examples
/// A destination that counts samples and keeps nothing:
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
    /// Appends whole records, one behind the other, in the recording's byte order.
    ///
    /// # Errors
    /// Fails if the destination does: a full disk. [`io::ErrorKind::BrokenPipe`] of a stream
    /// means that its reader went away.
    fn write_records(&mut self, records: &[u8]) -> io::Result<()>;

    /// Appends one record with its payload behind it, as AUXTRACE has it; at most 60 KiB in all. Such a record is not
    /// compressed with others. Does nothing by default: who wants records only passes over payloads.
    ///
    /// # Errors
    /// Fails as [`write_records`](Self::write_records) does, and with [`io::ErrorKind::InvalidInput`] for one that is too
    /// long.
    fn write_with_payload(&mut self, _record: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Hands on every record so far: what is in a file survives this process, what goes into a
    /// stream reaches its reader. Does nothing by default.
    ///
    /// # Errors
    /// Fails as [`write_records`](Self::write_records) does.
    fn checkpoint(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the number of bytes so far, after compression; limits on the size of a
    /// recording are compared with it. Of a file these are the records, of a stream
    /// everything.
    fn bytes_written(&self) -> u64;

    /// Ends the recording with the sections that describe it, and returns its length in bytes.
    /// `features` has all of them, those that were known from the start too.
    ///
    /// # Errors
    /// Fails as [`write_records`](Self::write_records) does.
    fn finish(self, features: FeatureSections) -> io::Result<u64>
    where
        Self: Sized;
}
