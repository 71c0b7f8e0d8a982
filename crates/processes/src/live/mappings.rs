//! Disjoint mappings, sorted by address.

use crate::ids::ImageId;

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
