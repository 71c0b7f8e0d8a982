//! Events, byte order and compression of a new recording.

use rprof_records::Endian;

use crate::features::DescribedEvent;

/// Event with attr, name, and the ids of its instances.
pub type EventDescription = DescribedEvent;

/// Byte order and compression of a new recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Byte order of the records, and so of the file.
    pub endian: Endian,
    /// zstd compression level, from 1 to 22; `None` for no compression.
    pub compression: Option<i32>,
}

impl Default for WriteOptions {
    /// Returns this machine's byte order, and no compression.
    fn default() -> WriteOptions {
        WriteOptions {
            endian: Endian::NATIVE,
            compression: None,
        }
    }
}
