//! [`Pages`]: file contents whose memory can be released during use.

use rprof_image::{FileVersion, ImageFile};
use std::ops::Range;

/// Bytes of a file in memory, with releasable parts.
pub(crate) trait Pages: AsRef<[u8]> + Sync {
    /// Releases the memory of a range. The bytes do not change.
    fn release(&self, range: Range<usize>);

    /// Returns true if the file is trusted: owned by root or this user.
    fn is_ours(&self) -> bool;

    /// Returns the version of the file, if the file is trusted.
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

impl Pages for Vec<u8> {
    fn release(&self, _: Range<usize>) {}

    fn is_ours(&self) -> bool {
        false
    }
}
