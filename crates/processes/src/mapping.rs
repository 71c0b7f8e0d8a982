//! A range of addresses backed by an image.

use crate::ids::{ImageId, Time};

/// A range of addresses backed by an image, from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address (AVMA).
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset in the image of `start`, in bytes (`pgoff` of the record). For a
    /// part that another mapping left over, adjusted to that part's start.
    pub file_offset: u64,
    /// Image that backs it.
    pub image: ImageId,
    /// True if it was mapped with `PROT_EXEC`.
    pub executable: bool,
    /// Time of the record that made it, in nanoseconds.
    pub since: Time,
}

impl Mapping {
    /// Returns the part from `address` on, if any is left.
    pub(crate) fn from(self, address: u64) -> Option<Self> {
        (address < self.end).then(|| Self {
            start: address,
            file_offset: self.offset_of(address),
            ..self
        })
    }

    /// Returns the offset in the image of an address. Wraps where a record's `pgoff` is
    /// absurd, as no answer is better than another there.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        self.file_offset
            .wrapping_add(address.wrapping_sub(self.start))
    }
}

/// Image and offset that an address was resolved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Image in which the address lies.
    pub image: ImageId,
    /// Offset in the image, in bytes from the start of the file: `address -
    /// mapping.start + mapping.file_offset`. For the kernel's own text, perf
    /// records a `pgoff` equal to the start, so that this is the address again.
    pub offset_in_file: u64,
    /// First address of the mapping (or of what is left of it).
    pub mapping_start: u64,
    /// First address after it.
    pub mapping_end: u64,
    /// True if it was mapped with `PROT_EXEC`.
    pub executable: bool,
    /// Time from which the mapping holds.
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
