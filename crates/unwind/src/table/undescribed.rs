//! [`UndescribedCode`]: the code of an image without FDEs, for simulation.

use super::elf::part;
use object::ReadRef;
use rprof_image::Segments;

/// Maximum number of bytes to copy. Larger images get no copy, as stripped Go programs, which keep
/// frame pointers.
const MAX_KEPT: u64 = 4 << 20;

/// Minimum length in bytes. Shorter stretches are padding between functions.
const MIN_STRETCH: u64 = 17;

#[derive(Debug, Default)]
pub(crate) struct UndescribedCode {
    stretches: Box<[(u64, Box<[u8]>)]>,
}

impl UndescribedCode {
    /// Copies all executable parts outside the SVMA ranges `described`, which are unordered.
    pub(crate) fn new<'data>(
        bytes: impl ReadRef<'data>,
        segments: &Segments,
        described: Vec<(u64, u64)>,
    ) -> Self {
        let gaps = gaps(segments, described);
        let total = gaps
            .iter()
            .fold(0_u64, |sum, (start, end)| sum.saturating_add(end - start));
        if total > MAX_KEPT {
            return Self::default();
        }
        let copy = |&(start, end): &(u64, u64)| {
            let (offset, left) = segments.offset_of_svma(start)?;
            let bytes = part(bytes, offset, left.min(end - start))?;
            Some((start, bytes.into()))
        };
        let mut stretches: Vec<(u64, Box<[u8]>)> = gaps.iter().filter_map(copy).collect();
        stretches.sort_unstable_by_key(|(start, _)| *start);
        Self {
            stretches: stretches.into(),
        }
    }

    pub(crate) fn at(&self, svma: u64) -> Option<&[u8]> {
        let behind = self.stretches.partition_point(|(start, _)| *start <= svma);
        let (start, bytes) = self.stretches.get(behind.checked_sub(1)?)?;
        bytes.get(usize::try_from(svma - start).ok()?..)
    }

    pub(crate) fn size(&self) -> usize {
        let bytes = self.stretches.iter().map(|(_, bytes)| bytes.len());
        bytes.sum::<usize>() + size_of_val(&*self.stretches)
    }
}

/// Returns the executable SVMA ranges outside `described`, which are unordered, without padding
/// between functions.
pub(super) fn gaps(segments: &Segments, mut described: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    described.sort_unstable();
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for segment in segments.code() {
        let (start, end) = (segment.svma, segment.svma.saturating_add(segment.file_size));
        let mut at = start;
        let first = described.partition_point(|&(_, end)| end <= start);
        for &(low, high) in described.get(first..).unwrap_or(&[]) {
            if low >= end {
                break;
            }
            if low > at {
                gaps.push((at, low));
            }
            at = at.max(high);
        }
        if at < end {
            gaps.push((at, end));
        }
    }
    gaps.retain(|(start, end)| end - start >= MIN_STRETCH);
    gaps.sort_unstable();
    gaps
}
