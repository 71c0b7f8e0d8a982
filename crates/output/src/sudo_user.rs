//! Owner of files that are written under sudo.

use std::fs::File;

/// Gives a file written under sudo to the calling user (`SUDO_UID`, `SUDO_GID`). Ignores failures.
pub(crate) fn hand_to_sudo_user(file: &File) {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID")) {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid)).ok();
    }
}
