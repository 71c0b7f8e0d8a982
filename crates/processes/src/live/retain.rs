//! Parts of mappings and names that a live map keeps.

use std::fmt::Debug;
use std::sync::Arc;

use rprof_records::{Mapped, Misc, MmapIdentity};

use crate::ids::ImageId;
use crate::image::{Image, ImageIdentity, ImageTable, Side};

/// Choice of what a [`LiveMap`](super::LiveMap) keeps beside addresses and ids.
pub trait Retain: Debug + Default {
    /// Kept of a mapping. Cloned where a mapping is cut in two, and where the two sides of a fork
    /// part.
    type Backing: Clone + Debug;
    /// Kept of a thread's name. Cloned by forks.
    type Name: Clone + Debug;

    /// Returns what is kept of a mapping.
    fn backing(&mut self, mapped: &Mapped<'_>) -> Self::Backing;

    /// Returns what is kept of a name.
    fn name(&mut self, name: &[u8]) -> Self::Name;

    /// Returns true if it is time to forget what nobody has mapped, while there are this many
    /// mappings.
    fn is_sweep_due(&self, _mappings: usize) -> bool {
        false
    }

    /// Forgets all but these.
    fn keep_only<'a>(&mut self, _mapped: impl Iterator<Item = &'a Self::Backing>)
    where
        Self::Backing: 'a,
    {
    }
}

/// Most images, and most bytes of their paths, of which each may have 4 KiB. A machine with hundreds of containers has
/// some thousands of images.
pub(super) const MOST_IMAGES: usize = 1 << 16;
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Path of the image that mappings have which came when there were too many.
pub(super) const TOO_MANY: &[u8] = b"[too many images]";

/// Keeps the image of each mapping, and names. Images are interned, and kept to the end, as far as there is room.
#[derive(Debug, Default)]
pub struct NamedImages {
    table: ImageTable,
    /// Bytes of paths in `table`.
    bytes: usize,
}

impl NamedImages {
    pub(super) fn as_slice(&self) -> &[Image] {
        self.table.as_slice()
    }
}

impl Retain for NamedImages {
    type Backing = ImageId;
    type Name = Arc<[u8]>;

    fn backing(&mut self, mapped: &Mapped<'_>) -> ImageId {
        let identity = mapped.identity.map_or(ImageIdentity::PathOnly, Into::into);
        if let Some(known) = self.table.find(Side::User, &mapped.path, identity) {
            return known;
        }
        let is_full = self.as_slice().len() >= MOST_IMAGES;
        if is_full || self.bytes + mapped.path.len() > MOST_BYTES {
            return (self.table).intern(Side::User, TOO_MANY, ImageIdentity::PathOnly);
        }
        self.bytes += mapped.path.len();
        self.table.intern(Side::User, &mapped.path, identity)
    }

    fn name(&mut self, name: &[u8]) -> Arc<[u8]> {
        name.into()
    }
}

/// Keeps names, and of each mapping all that its record said, so that records can be made of them
/// again. What nobody has mapped any more is forgotten.
#[derive(Debug, Default)]
pub struct Records;

/// The contents of a mapping's record, but for its addresses.
#[derive(Debug)]
pub struct MappingRecord {
    pub(super) misc: Misc,
    pub(super) tid: i32,
    pub(super) identity: Option<MmapIdentity>,
    pub(super) prot_and_flags: Option<(u32, u32)>,
    pub(super) path: Box<[u8]>,
}

impl Retain for Records {
    type Backing = Arc<MappingRecord>;
    type Name = Arc<[u8]>;

    fn backing(&mut self, mapped: &Mapped<'_>) -> Arc<MappingRecord> {
        Arc::new(MappingRecord {
            misc: mapped.misc,
            tid: mapped.tid,
            identity: mapped.identity,
            prot_and_flags: mapped.prot_and_flags,
            path: (*mapped.path).into(),
        })
    }

    fn name(&mut self, name: &[u8]) -> Arc<[u8]> {
        name.into()
    }
}
