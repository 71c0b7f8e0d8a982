//! `PT_LOAD` segments: from file offsets to SVMAs.

/// A `PT_LOAD` program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// File offset of the first byte (`p_offset`).
    pub offset: u64,
    /// Bytes in the file (`p_filesz`).
    pub file_size: u64,
    /// Address of the first byte (`p_vaddr`).
    pub svma: u64,
    /// Bytes in memory (`p_memsz`).
    pub memory_size: u64,
    /// Whether it holds code (`PF_X`).
    pub executable: bool,
}

/// Pages of at least this size back every mapping; some machines have bigger ones,
/// for which the exact match comes first anyway.
const PAGE: u64 = 4096;

/// The loaded segments of a file. A few, rarely more than ten.
#[derive(Debug, Default)]
pub struct Segments(Vec<Segment>);

impl Segments {
    /// Takes the segments of a file, in any order.
    #[must_use]
    pub fn new(mut segments: Vec<Segment>) -> Self {
        // Code first: where segments overlap in the file, code is what is asked for.
        segments.sort_by_key(|segment| !segment.executable);
        // Each lookup walks the list, so a file made up of headers must not lengthen it.
        segments.truncate(256);
        Self(segments)
    }

    /// Returns the SVMA of the byte at a file offset.
    #[must_use]
    pub fn svma(&self, offset: u64) -> Option<u64> {
        let exact = self.0.iter().find(|segment| {
            offset
                .checked_sub(segment.offset)
                .is_some_and(|inside| inside < segment.file_size)
        });
        // The loader maps whole pages: the bytes that share the first and last page
        // with the segment are in memory too. Beyond the file part, memory (.bss) has
        // no offset, yet a recorder that subtracts addresses may well report one.
        let found = exact.or_else(|| {
            self.0.iter().find(|segment| {
                let low = segment.offset & !(PAGE - 1);
                let len = segment.file_size.max(segment.memory_size);
                let high = segment
                    .offset
                    .saturating_add(len)
                    .checked_next_multiple_of(PAGE);
                len > 0 && low <= offset && offset < high.unwrap_or(u64::MAX)
            })
        })?;
        Some(found.svma.wrapping_add(offset.wrapping_sub(found.offset)))
    }

    /// The file offsets of sorted SVMAs, and those at which another segment is asked or memory
    /// ends, in no order. `None` where that would be more than `most`.
    #[must_use]
    pub fn offset_bounds(&self, svmas: &[u64], most: usize) -> Option<Vec<u64>> {
        let mut bounds = vec![0];
        for segment in &self.0 {
            let low = segment.offset & !(PAGE - 1);
            let len = segment.file_size.max(segment.memory_size);
            let end = segment.offset.saturating_add(len);
            let high = end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
            let file_end = segment.offset.saturating_add(segment.file_size);
            let memory_end = segment.offset.saturating_add(segment.memory_size);
            bounds.extend([low, segment.offset, file_end, memory_end, high]);
            let first = segment.svma.saturating_sub(segment.offset - low);
            let last = segment.svma.saturating_add(high - segment.offset);
            let inside = svmas.partition_point(|svma| *svma < first)
                ..svmas.partition_point(|svma| *svma < last);
            if bounds.len().saturating_add(inside.len()) > most {
                return None;
            }
            let offset = |svma: &u64| {
                (svma.checked_sub(segment.svma)).map_or_else(
                    || segment.offset.saturating_sub(segment.svma - svma),
                    |inside| segment.offset.saturating_add(inside),
                )
            };
            bounds.extend(svmas.get(inside).unwrap_or_default().iter().map(offset));
        }
        Some(bounds)
    }

    /// Where memory of the segments begins and ends: SVMAs.
    pub fn bounds(&self) -> impl Iterator<Item = u64> {
        let bounds = |s: &Segment| [s.svma, s.svma.saturating_add(s.memory_size)];
        self.0.iter().flat_map(bounds)
    }

    /// Returns true if a segment covers this SVMA in memory.
    #[must_use]
    pub fn contains(&self, svma: u64) -> bool {
        self.0
            .iter()
            .any(|segment| svma.wrapping_sub(segment.svma) < segment.memory_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        let text = Segment {
            offset: 0x1000,
            file_size: 0x234,
            svma: 0x40_2000,
            memory_size: 0x234,
            executable: true,
        };
        let data = Segment {
            offset: 0x1234,
            file_size: 0x10,
            svma: 0x40_4234,
            memory_size: 0x3000,
            executable: false,
        };
        let segments = Segments::new(vec![data, text]);
        assert_eq!(segments.svma(0x1000), Some(0x40_2000));
        assert_eq!(segments.svma(0x1233), Some(0x40_2233));
        assert_eq!(
            segments.svma(0x1234),
            Some(0x40_4234),
            "claimed by another segment"
        );
        assert_eq!(
            segments.svma(0x1300),
            Some(0x40_2300),
            "rest of the page of code"
        );
        assert_eq!(
            segments.svma(0x2100),
            Some(0x40_5100),
            "memory without file"
        );
        assert_eq!(segments.svma(0xfff), None);
        assert_eq!(segments.svma(u64::MAX), None);
        assert!(segments.contains(0x40_7000) && !segments.contains(0x40_8000));
    }
}
