//! Stored parts of mappings and names.

use std::fmt::Debug;
use std::sync::Arc;

use rprof_records::{Mapped, Misc, MmapIdentity};

use crate::ids::ImageId;
use crate::image::{Image, ImageIdentity, ImageKind, ImageTable, Side, image_name};

/// Selects what a [`LiveMap`](super::LiveMap) stores besides addresses and ids.
pub trait Retain: Debug + Default {
    /// Stored data of a mapping. Cloned by splits, and when parent and child diverge.
    type Backing: Clone + Debug;
    /// Stored data of a thread name. Cloned by forks.
    type Name: Clone + Debug;

    /// Converts a mapping to stored data.
    fn backing(&mut self, mapped: &Mapped<'_>) -> Self::Backing;

    /// Converts a name to stored data.
    fn name(&mut self, name: &[u8]) -> Self::Name;

    /// Returns a backing's image. `None` unless images are stored.
    fn image(&self, _: &Self::Backing) -> Option<ImageId> {
        None
    }

    /// Returns the kind of an image.
    fn kind(&self, _: ImageId) -> ImageKind {
        ImageKind::Other
    }

    /// Returns true if a sweep of unmapped backings pays, given the number of mappings.
    fn is_sweep_due(&self, _mappings: usize) -> bool {
        false
    }

    /// Releases all other backings.
    fn keep_only<'a>(&mut self, _mapped: impl Iterator<Item = &'a Self::Backing>)
    where
        Self::Backing: 'a,
    {
    }
}

/// Bounds images and the bytes in their paths (up to 4 KiB each). A machine with hundreds of
/// containers has some thousands of images.
pub(super) const MAX_IMAGES: usize = 1 << 16;
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Path of the image beyond the limits.
pub(super) const TOO_MANY: &[u8] = b"[too many images]";

/// Stores images of mappings, and names. Images are interned and never released, up to the limits.
#[derive(Debug, Default)]
pub struct NamedImages {
    table: ImageTable,
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
        let path = image_name(&mapped.path, mapped.end());
        let identity = mapped.identity.map_or(ImageIdentity::PathOnly, Into::into);
        if let Some(known) = self.table.find(Side::User, path, identity) {
            return known;
        }
        let is_full = self.as_slice().len() >= MAX_IMAGES;
        if is_full || self.bytes + path.len() > MAX_BYTES {
            return (self.table).intern(Side::User, TOO_MANY, ImageIdentity::PathOnly, 0);
        }
        self.bytes += path.len();
        self.table.intern(Side::User, path, identity, 0)
    }

    fn name(&mut self, name: &[u8]) -> Arc<[u8]> {
        name.into()
    }

    fn image(&self, backing: &ImageId) -> Option<ImageId> {
        Some(*backing)
    }

    fn kind(&self, image: ImageId) -> ImageKind {
        self.table.kind(image)
    }
}

/// Stores names and full mapping records, to recreate the records. Releases unmapped ones.
#[derive(Debug, Default)]
pub struct Records;

/// A mapping's record without addresses.
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
