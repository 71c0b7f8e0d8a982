//! [`LastingPlaces`]: predicts whether a file will still exist for a report.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Folders that only package managers change.
const OF_PACKAGES: [&str; 9] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// Further folders on permanent mounts.
const OF_THE_MACHINE: [&str; 5] = ["/", "/home", "/root", "/srv", "/var"];

/// Minimum age of a user's own stable file.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// The permanent mounts of this machine.
///
/// Other files may disappear. Builds and tests replace or remove programs, and an application image
/// is mounted only while the application runs.
#[derive(Debug)]
pub struct LastingPlaces {
    mounts: Vec<u64>,
}

impl Default for LastingPlaces {
    fn default() -> LastingPlaces {
        let folders = OF_PACKAGES.iter().chain(&OF_THE_MACHINE).map(Path::new);
        LastingPlaces {
            mounts: folders.filter_map(mount_of).collect(),
        }
    }
}

impl LastingPlaces {
    /// Returns true if a file will probably stay at this absolute path.
    #[must_use]
    pub fn has(&self, path: &Path, metadata: &Metadata) -> bool {
        let is_mounted_for_good = mount_of(path).is_some_and(|mount| self.mounts.contains(&mount));
        let is_of_package = || OF_PACKAGES.iter().any(|folder| path.starts_with(folder));
        is_mounted_for_good && (is_of_package() || is_old(metadata))
    }
}

/// Returns the mount id of a path, or the device before Linux 5.8.
fn mount_of(path: &Path) -> Option<u64> {
    let wanted = StatxFlags::MNT_ID | StatxFlags::BASIC_STATS;
    match statx(CWD, path, AtFlags::empty(), wanted) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID) => {
            Some(found.stx_mnt_id)
        }
        _ => Some(std::fs::metadata(path).ok()?.dev()),
    }
}

/// Returns true if contents, name, owner and mode have not changed for [`OLD`] (ctime).
fn is_old(metadata: &Metadata) -> bool {
    let changed = Duration::from_secs(metadata.ctime().unsigned_abs());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.is_ok_and(|now| now.saturating_sub(changed) > OLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_made_may_go_and_the_systems_own_programs_stay() {
        let places = LastingPlaces::default();
        let has = |path: &Path| places.has(path, &std::fs::metadata(path).unwrap());
        let new = tempfile::NamedTempFile::new().unwrap();
        assert!(!has(new.path()));
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        assert!(has(&shell), "{}", shell.display());
        // On a separate mount.
        assert!(!has(Path::new("/proc/self/status")));
        assert!(!is_old(&new.as_file().metadata().unwrap()));
    }
}
