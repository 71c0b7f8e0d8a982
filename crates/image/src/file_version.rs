//! [`FileVersion`]: detects that a file has changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// FAT has a timestamp resolution of two seconds.
const COARSEST: Duration = Duration::from_secs(2);

/// Device, inode, length and times of a file.
///
/// A writer can set mtime at will, as `cp -p` and package managers do, but not ctime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// Creates the version from metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the inode number.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns true for two versions of the same file (device and inode).
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns the version as bytes, distinct for each version.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 56] {
        let (modified, changed) = (self.modified, self.changed);
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::to_ne_bytes);
        let mut bytes = [0; 56];
        let numbers = [self.device, self.inode, self.len].map(u64::to_ne_bytes);
        for (to, from) in bytes.chunks_exact_mut(8).zip(numbers.iter().chain(&times)) {
            to.copy_from_slice(from);
        }
        bytes
    }

    /// Returns true if any change after `now` will produce another version, as the last one is
    /// older than the timestamp resolution.
    #[must_use]
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let (Ok(seconds), Ok(nanos)) =
            (u64::try_from(self.changed.0), u32::try_from(self.changed.1))
        else {
            // Before 1970.
            return false;
        };
        let changed = UNIX_EPOCH.checked_add(Duration::new(seconds, nanos));
        changed.is_some_and(|at| now.duration_since(at).is_ok_and(|age| age > COARSEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn another_state_is_another_version() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let version = || FileVersion::of(&fs::metadata(file.path()).unwrap());
        let empty = version();
        assert_eq!(version(), empty);
        assert_eq!(version().to_bytes(), empty.to_bytes());
        fs::write(file.path(), "text").unwrap();
        assert_ne!(version(), empty);
        assert_ne!(version().to_bytes(), empty.to_bytes());
        let other = tempfile::NamedTempFile::new().unwrap();
        let other = FileVersion::of(&other.as_file().metadata().unwrap());
        assert_ne!(other.to_bytes(), empty.to_bytes());
    }

    #[test]
    fn a_file_is_settled_seconds_after_its_last_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let version = FileVersion::of(&file.as_file().metadata().unwrap());
        let changed = UNIX_EPOCH
            + Duration::new(
                version.changed.0.unsigned_abs(),
                u32::try_from(version.changed.1).unwrap(),
            );
        assert!(!version.is_settled(changed));
        assert!(
            !version.is_settled(changed - Duration::from_secs(9)),
            "a clock that was set back"
        );
        assert!(!version.is_settled(changed + COARSEST));
        assert!(version.is_settled(changed + COARSEST + Duration::from_millis(1)));
    }
}
