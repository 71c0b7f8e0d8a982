//! Bytes of files of which the memory can be given back meanwhile.

use rprof_image::ImageFile;
use std::ops::Range;

/// Bytes of a file in memory, of which parts can be given back once they were read.
pub(crate) trait Pages: AsRef<[u8]> + Sync {
    /// Memory for this range is not needed any more for now. The bytes stay what they are.
    fn release(&self, range: Range<usize>);
}

impl Pages for ImageFile {
    fn release(&self, range: Range<usize>) {
        Self::release(self, range);
    }
}

impl Pages for Vec<u8> {
    fn release(&self, _: Range<usize>) {}
}
