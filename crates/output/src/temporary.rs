//! Temporary folders that only their owner can enter.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

/// Creates a temporary folder of mode 0700, which is removed with its contents when dropped.
///
/// In a shared `TMPDIR`, other users see file names, and could first create a file with a derived
/// name.
///
/// # Errors
/// The error of the system.
pub fn private_folder() -> io::Result<TempDir> {
    (tempfile::Builder::new().prefix("rprof-"))
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_for_its_owner_alone() {
        let folder = private_folder().unwrap();
        let mode = folder.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
