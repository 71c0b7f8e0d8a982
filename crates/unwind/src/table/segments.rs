//! The program headers: where the file's bytes are mapped, and which are code.

/// The PT_LOAD segments of an image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    loads: Box<[Load]>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) offset: u64,
    pub(crate) svma: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) executable: bool,
}

/// Smallest unit of a mapping on the architectures there are. With larger pages more of the file
/// is mapped around a segment, never less.
const PAGE: u64 = 4096;

impl Segments {
    pub(crate) fn new(loads: Vec<Load>) -> Self {
        Self {
            loads: loads.into(),
        }
    }

    /// The address that this byte of the file has. Mappings begin and end at page boundaries, so
    /// that a byte may be mapped by two segments; then the executable one is meant.
    pub(crate) fn svma_of_offset(&self, offset: u64) -> Option<u64> {
        let covers = |load: &&Load| {
            let start = load.offset / PAGE * PAGE;
            let end = load.offset.saturating_add(load.file_size);
            start <= offset && offset < end
        };
        let load = self
            .loads
            .iter()
            .filter(covers)
            .max_by_key(|load| load.executable)?;
        Some(load.svma.wrapping_add(offset.wrapping_sub(load.offset)))
    }

    /// Where in the file the byte at this address is, and how many follow it in the segment.
    pub(crate) fn offset_of_svma(&self, svma: u64) -> Option<(u64, u64)> {
        self.loads.iter().find_map(|load| {
            let within = svma.checked_sub(load.svma)?;
            let left = load.file_size.checked_sub(within)?;
            (left != 0).then_some((load.offset.checked_add(within)?, left))
        })
    }

    /// Whether this address is in code. An image that says nothing of it has code anywhere.
    pub(crate) fn is_code(&self, svma: u64) -> bool {
        let holds = |load: &Load| {
            load.executable
                && svma
                    .checked_sub(load.svma)
                    .is_some_and(|within| within < load.memory_size)
        };
        self.loads.iter().any(holds) || !self.loads.iter().any(|load| load.executable)
    }

    /// Start and end of each executable segment, as far as the file has it.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, u64)> {
        let code = self.loads.iter().filter(|load| load.executable);
        code.map(|load| (load.svma, load.svma.saturating_add(load.file_size)))
    }

    /// Lowest address of any code.
    pub(crate) fn code_start(&self) -> u64 {
        let code = self.loads.iter().filter(|load| load.executable);
        code.map(|load| load.svma).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(offset: u64, svma: u64, size: u64, executable: bool) -> Load {
        Load {
            offset,
            svma,
            file_size: size,
            memory_size: size,
            executable,
        }
    }

    #[test]
    fn mappings_are_rounded_to_pages() {
        // As lld lays files out: segments share pages of the file.
        let segments = Segments::new(vec![
            load(0, 0, 0x1800, false),
            load(0x1800, 0x2800, 0x1000, true),
            load(0x2800, 0x4800, 0x100, false),
        ]);
        assert_eq!(segments.svma_of_offset(0), Some(0));
        assert_eq!(segments.svma_of_offset(0x1000), Some(0x2000), "code wins");
        assert_eq!(segments.svma_of_offset(0x2000), Some(0x3000));
        assert_eq!(segments.svma_of_offset(0x28ff), Some(0x48ff));
        assert_eq!(segments.svma_of_offset(0x2900), None);
        assert!(segments.is_code(0x2800) && !segments.is_code(0x27ff));
        assert_eq!(segments.offset_of_svma(0x37ff), Some((0x27ff, 1)));
        assert_eq!(segments.offset_of_svma(0x3800), None);
        assert_eq!(segments.code_start(), 0x2800);
    }
}
