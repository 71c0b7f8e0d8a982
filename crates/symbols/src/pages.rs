//! Bytes of files whose memory can be released while they are in use.

use rprof_image::ImageFile;
use std::ops::Range;

/// Bytes of a file in memory, parts of which can be released once they were read.
pub(crate) trait Pages: AsRef<[u8]> + Sync {
    /// Announces that this range is not needed for now. The bytes do not change.
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
