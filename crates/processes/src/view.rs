//! The mappings of one address space at one moment.

use crate::ids::{ImageId, Time};
use crate::tree::{Arena, NIL, Root};

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

/// The mappings of one address space at one moment; cheap to make and to copy.
///
/// Resolve a whole callchain through one view: the process, its address space
/// and the version in force are then looked up once.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'a> {
    arena: &'a Arena,
    root: Root,
    time: Time,
}

impl<'a> MapView<'a> {
    pub(crate) fn new(arena: &'a Arena, root: Root, time: Time) -> Self {
        Self { arena, root, time }
    }

    /// Returns the image at an address. A mapping holds at its own begin time already.
    pub fn resolve(&self, address: u64) -> Option<Resolved> {
        self.mapping_at(address)
            .map(|mapping| Resolved::new(&mapping, address))
    }

    /// Returns the mapping that covers an address.
    pub fn mapping_at(&self, address: u64) -> Option<Mapping> {
        self.arena
            .find(self.root, address)
            .filter(|mapping| mapping.since <= self.time)
    }

    /// Returns all mappings, by ascending address. They are disjoint.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> + use<'a> {
        let Self { arena, root, time } = *self;
        let mut above = Vec::new();
        let mut node = root;
        std::iter::from_fn(move || {
            while node != NIL {
                above.push(node);
                node = arena.children(node).0;
            }
            let next = above.pop()?;
            node = arena.children(next).1;
            Some(arena.mapping(next))
        })
        .filter(move |mapping| mapping.since <= time)
    }
}
