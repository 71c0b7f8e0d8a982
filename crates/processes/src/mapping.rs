//! An address range backed by an image.

use crate::ids::{ImageId, Time};

/// An address range backed by an image, from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address (AVMA).
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// Image offset of `start` in bytes (the record's `pgoff`). Adjusted after partial replacement.
    pub file_offset: u64,
    /// Image that backs it.
    pub image: ImageId,
    /// True for `PROT_EXEC`.
    pub executable: bool,
    /// Time of the record, in nanoseconds.
    pub since: Time,
}

impl Mapping {
    /// Returns the part from `address` on, unless it is empty.
    pub(crate) fn from(self, address: u64) -> Option<Self> {
        (address < self.end).then(|| Self {
            start: address,
            file_offset: self.offset_of(address),
            ..self
        })
    }

    /// Returns an address's offset. Wraps for absurd `pgoff`s.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        self.file_offset
            .wrapping_add(address.wrapping_sub(self.start))
    }
}

/// Image and offset of a resolved address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Image that contains the address.
    pub image: ImageId,
    /// Offset in the image's file, in bytes: `address - mapping.start + mapping.file_offset`. For
    /// kernel text perf records `pgoff` equal to the start, so this is the address.
    pub offset_in_file: u64,
    /// First address of the mapping, or of its rest.
    pub mapping_start: u64,
    /// First address after the mapping.
    pub mapping_end: u64,
    /// True for `PROT_EXEC`.
    pub executable: bool,
    /// Start time of the mapping.
    pub since: Time,
}

impl Resolved {
    pub(crate) fn new(mapping: &Mapping, address: u64) -> Self {
        Self {
            image: mapping.image,
            offset_in_file: mapping.offset_of(address),
            mapping_start: mapping.start,
            mapping_end: mapping.end,
            executable: mapping.executable,
            since: mapping.since,
        }
    }
}
