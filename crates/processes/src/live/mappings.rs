//! Disjoint mappings, sorted by address.

use super::retain::Retain;
use crate::huge_pages::Before;
use crate::ids::ImageId;
use crate::image::ImageKind;
use crate::mapping::Mapping;

/// A range of addresses and its backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveMapping<B = ImageId> {
    /// First address (AVMA).
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// Offset of `start` in the image, in bytes.
    pub file_offset: u64,
    /// Image, or other backing data of [`Retain`](super::Retain).
    pub backing: B,
    /// True for `PROT_EXEC`.
    pub executable: bool,
}

/// Finds an address in disjoint mappings sorted by address.
pub fn find<B>(mappings: &[LiveMapping<B>], address: u64) -> Option<&LiveMapping<B>> {
    let after = mappings.partition_point(|m| m.start <= address);
    let mapping = mappings.get(after.checked_sub(1)?)?;
    (address < mapping.end).then_some(mapping)
}

/// Inserts a mapping, and cuts overlapped ones.
pub(super) fn insert<B: Clone>(mappings: &mut Vec<LiveMapping<B>>, new: LiveMapping<B>) {
    let first = mappings.partition_point(|m| m.end <= new.start);
    let last = mappings.partition_point(|m| m.start < new.end);
    let left = mappings.get(first).filter(|m| m.start < new.start);
    let left = left.map(|left| LiveMapping {
        end: new.start,
        ..left.clone()
    });
    let right = last.checked_sub(1).and_then(|at| mappings.get(at));
    let right = right.filter(|m| m.end > new.end).map(|right| LiveMapping {
        start: new.end,
        file_offset: right.file_offset.wrapping_add(new.end - right.start),
        ..right.clone()
    });
    let kept = [left, Some(new), right];
    // Without overlap, `first` may exceed `last`.
    mappings.splice(first..last.max(first), kept.into_iter().flatten());
}

struct Present<'a, R: Retain>(&'a R, &'a [LiveMapping<R::Backing>]);

impl<R: Retain> Present<'_, R> {
    fn mapping(&self, of: &LiveMapping<R::Backing>) -> Option<Mapping> {
        Some(Mapping {
            start: of.start,
            end: of.end,
            file_offset: of.file_offset,
            image: self.0.image(&of.backing)?,
            executable: of.executable,
            since: 0,
        })
    }
}

impl<R: Retain> Before for Present<'_, R> {
    fn find(&self, address: u64) -> Option<Mapping> {
        self.mapping(find(self.1, address)?)
    }

    fn kind(&self, image: ImageId) -> ImageKind {
        self.0.kind(image)
    }
}

/// Mapping that is text on huge pages.
pub(super) enum HugeText<B> {
    /// The mapping is text of the file that it covers.
    New,
    /// An earlier mapping is text of the new one's file.
    Earlier(LiveMapping<B>),
    /// No mapping changed.
    None,
}

/// Finds text on huge pages by a new mapping.
pub(super) fn huge_text<R: Retain>(
    retained: &R,
    mappings: &[LiveMapping<R::Backing>],
    new: &LiveMapping<R::Backing>,
) -> HugeText<R::Backing> {
    let present = Present(retained, mappings);
    let Some(mapping) = present.mapping(new) else {
        return HugeText::None;
    };
    if present.is_moved_text(&mapping) {
        return HugeText::New;
    }
    match present.moved_text_before(&mapping) {
        Some(text) => HugeText::Earlier(LiveMapping {
            start: text.start,
            end: text.end,
            file_offset: text.file_offset,
            ..new.clone()
        }),
        None => HugeText::None,
    }
}
