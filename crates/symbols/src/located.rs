//! Functions without symbols, located by the image's unwinding information.

use crate::debug::DebugFiles;
use crate::elf_image::ElfImage;
use crate::frames::{Frames, Symbol};
use crate::pages::Pages;
use rprof_image::{MemoryBudget, MemoryLease, Reason};
use rprof_unwind::FunctionRanges;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ImageFunctions {
    ranges: FunctionRanges,
    _lease: MemoryLease,
}

impl ImageFunctions {
    /// Reads the function ranges. `None` without readable unwinding information, or at the memory
    /// limit.
    pub(crate) fn read(bytes: &[u8], memory: &MemoryBudget) -> Option<Self> {
        let ranges = FunctionRanges::parse(bytes).ok()?;
        let lease = memory.take(ranges.memory() as u64)?;
        Some(Self {
            ranges,
            _lease: lease,
        })
    }

    fn at(&self, bytes: &[u8], svma: u64) -> Option<Range<u64>> {
        self.ranges.at(bytes, svma)
    }

    /// Returns the SVMAs at which functions start and end, unsorted.
    pub(crate) fn bounds(&self, bytes: &[u8]) -> Vec<u64> {
        self.ranges.bounds(bytes)
    }
}

/// Symbols of located functions, shared by ascending SVMAs.
#[derive(Debug, Default)]
pub(crate) struct LocatedNames {
    file_name: Option<Option<String>>,
    last: Option<Arc<Symbol>>,
}

impl LocatedNames {
    pub(crate) fn frames<D: Pages>(
        &mut self,
        image: &ElfImage<D>,
        svma: u64,
        reason: Reason,
        places: &DebugFiles,
    ) -> Option<Frames> {
        if reason == Reason::OutsideImage {
            return None;
        }
        let range = image.functions(places)?.at(image.bytes(), svma)?;
        let offset = svma.checked_sub(range.start)?;
        let known = self.last.as_ref();
        let known =
            known.filter(|known| known.start == range.start && known.located == Some(reason));
        let symbol = match known {
            Some(known) => Arc::clone(known),
            None => {
                let name = self.file_name.get_or_insert_with(|| image.file_name());
                let name: Box<str> = format!("{}+{:#x}", name.as_ref()?, range.start).into();
                Arc::new(Symbol {
                    raw: name.clone(),
                    name,
                    start: range.start,
                    size: range.end - range.start,
                    module: None,
                    located: Some(reason),
                })
            }
        };
        self.last = Some(Arc::clone(&symbol));
        Some(Frames::new(symbol, offset))
    }
}
