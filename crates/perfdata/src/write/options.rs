//! Events, byte order and compression of a recording that is written.

use rprof_records::Endian;

use crate::features::DescribedEvent;

/// An event to be recorded: attr, name, and the ids of its instances.
pub type EventDescription = DescribedEvent;

/// Byte order and compression of a recording that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Byte order of the records that will come, and so of the file.
    pub endian: Endian,
    /// Level at which zstd compresses the records, from 1 to 22; `None` for not at all.
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
