//! Bytes of files whose memory can be released while they are in use.

use rprof_image::{FileVersion, ImageFile};
use std::ops::Range;

/// Bytes of a file in memory, parts of which can be released once they were read.
pub(crate) trait Pages: AsRef<[u8]> + Sync {
    /// Announces that this range is not needed for now. The bytes do not change.
    fn release(&self, range: Range<usize>);

    /// Returns true if the file is root's or that of whoever runs this: no stranger made it.
    fn is_ours(&self) -> bool;

    /// Returns the state of the file that these are the bytes of, if no stranger can make another of the same state.
    fn version(&self) -> Option<FileVersion> {
        None
    }
}

impl Pages for ImageFile {
    fn release(&self, range: Range<usize>) {
        Self::release(self, range);
    }

    fn is_ours(&self) -> bool {
        Self::is_ours(self)
    }

    fn version(&self) -> Option<FileVersion> {
        Self::is_ours(self).then(|| Self::version(self))
    }
}

/// A copy of a file, as it is in a recording.
impl Pages for Vec<u8> {
    fn release(&self, _: Range<usize>) {}

    fn is_ours(&self) -> bool {
        false
    }
}
