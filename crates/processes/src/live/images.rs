//! [`Images`]: mapped images of living processes.

use std::collections::{HashMap, VecDeque};

use rprof_records::Mapped;

use super::retain::{MAX_BYTES, MAX_IMAGES, Retain, TOO_MANY};
use crate::ids::ImageId;
use crate::image::{Image, ImageIdentity, ImageKind, image_name};

/// New images before a sweep of unmapped ones.
const MIN_NEW: usize = 1024;

/// Stores images of mappings, but no names. Images are interned, and released some time after their
/// last mapping. Beyond the limits, mappings get the unnamed image [`Images::NONE`].
#[derive(Debug)]
pub struct Images {
    /// Images by number; `None` for a free number.
    slots: Vec<Option<Slot>>,
    /// Free numbers, least recently used first.
    free: VecDeque<u32>,
    numbers: HashMap<Key, ImageId>,
    serials: u64,
    bytes: usize,
    /// New images since the last sweep.
    new: usize,
    /// Mapped images at the last sweep.
    swept: usize,
    refused: u64,
    forgotten: Vec<ImageId>,
}

#[derive(Debug)]
struct Slot {
    image: Image,
    /// Number that is never reused.
    serial: u64,
}

/// Key of an image. A build-id needs no path.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(Option<Box<[u8]>>, ImageIdentity);

impl Key {
    fn new(path: &[u8], identity: ImageIdentity) -> Self {
        let speaks_for_itself = matches!(identity, ImageIdentity::BuildId(_));
        Self((!speaks_for_itself).then(|| path.into()), identity)
    }
}

impl Default for Images {
    fn default() -> Self {
        let mut images = Self {
            slots: Vec::new(),
            free: VecDeque::new(),
            numbers: HashMap::new(),
            serials: 0,
            bytes: 0,
            new: 0,
            swept: 0,
            refused: 0,
            forgotten: Vec::new(),
        };
        images.put(Image {
            path: TOO_MANY.into(),
            identity: ImageIdentity::PathOnly,
            kind: ImageKind::Other,
            first_mapped: 0,
        });
        images
    }
}

impl Images {
    /// Image of mappings beyond the limit.
    pub const NONE: ImageId = ImageId(0);

    pub(super) fn get(&self, id: ImageId) -> Option<&Image> {
        Some(&self.slot(id)?.image)
    }

    pub(super) fn serial(&self, id: ImageId) -> Option<u64> {
        Some(self.slot(id)?.serial)
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<ImageId> {
        std::mem::take(&mut self.forgotten)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    pub(super) fn bound(&self) -> usize {
        self.slots.len()
    }

    fn slot(&self, id: ImageId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    fn put(&mut self, image: Image) -> ImageId {
        self.bytes += image.path.len();
        self.serials += 1;
        let slot = Some(Slot {
            image,
            serial: self.serials,
        });
        if let Some(free) = self.free.pop_front()
            && let Some(place) = self.slots.get_mut(free as usize)
        {
            *place = slot;
            return ImageId(free);
        }
        self.slots.push(slot);
        ImageId(self.slots.len() as u32 - 1)
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Retain for Images {
    type Backing = ImageId;
    type Name = ();

    fn backing(&mut self, mapped: &Mapped<'_>) -> ImageId {
        let path = image_name(&mapped.path, mapped.end());
        let kind = ImageKind::of_user(path);
        let identity = mapped.identity.map_or(ImageIdentity::PathOnly, Into::into);
        let identity = identity.of_kind(kind);
        let key = Key::new(path, identity);
        if let Some(id) = self.numbers.get(&key) {
            return *id;
        }
        self.new += 1;
        if self.len() >= MAX_IMAGES || self.bytes + path.len() > MAX_BYTES {
            self.refused += 1;
            return Self::NONE;
        }
        let id = self.put(Image {
            path: path.into(),
            identity,
            kind,
            first_mapped: 0,
        });
        self.numbers.insert(key, id);
        id
    }

    fn name(&mut self, _: &[u8]) {}

    fn image(&self, backing: &ImageId) -> Option<ImageId> {
        Some(*backing)
    }

    fn kind(&self, image: ImageId) -> ImageKind {
        self.get(image).map_or(ImageKind::Other, |image| image.kind)
    }

    /// Requires as many new images as remained after the last sweep, and a fraction of the mappings
    /// to walk, so that sweeps cost little.
    fn is_sweep_due(&self, mappings: usize) -> bool {
        self.new >= MIN_NEW.max(self.swept).max(mappings / 8)
    }

    fn keep_only<'a>(&mut self, mapped: impl Iterator<Item = &'a ImageId>) {
        let mut is_mapped = vec![false; self.slots.len()];
        for id in mapped.chain([&Self::NONE]) {
            if let Some(is_mapped) = is_mapped.get_mut(id.0 as usize) {
                *is_mapped = true;
            }
        }
        for (number, _) in (0_u32..).zip(&is_mapped).filter(|(_, mapped)| !**mapped) {
            let slot = self.slots.get_mut(number as usize).and_then(Option::take);
            if let Some(Slot { image, .. }) = slot {
                self.bytes -= image.path.len();
                self.numbers.remove(&Key::new(&image.path, image.identity));
                self.free.push_back(number);
                self.forgotten.push(ImageId(number));
            }
        }
        self.new = 0;
        self.swept = self.len();
    }
}
