//! Symbolic links at the path of an output.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, stat};

use crate::error::OutputError;
use crate::kind::Kind;

/// Maximum number of links followed, as in the kernel.
pub(crate) const MAX_LINKS: usize = 40;

/// Checks that a link may be replaced: it must end at a regular file or at nothing, without passing
/// through a kernel file system. Replacing the link `/dev/stdout` would break the machine.
pub(crate) fn check(path: &Path) -> Result<(), OutputError> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = match at.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        // A missing folder has no file to protect.
        let Ok(folder) = fs::canonicalize(folder) else {
            break;
        };
        if let Some(into) = system_part(&folder) {
            return Err(OutputError::LinkIntoSystem {
                path: path.to_owned(),
                into: into.into(),
            });
        }
        match fs::read_link(&at) {
            Ok(target) => at = folder.join(target),
            Err(_) => break,
        }
    }
    match stat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            other => Err(OutputError::LinkToDevice {
                path: path.to_owned(),
                kind: Kind::of(other),
            }),
        },
        Err(_) => Ok(()),
    }
}

/// Returns the kernel file system of a folder. `/dev/shm` does not count.
fn system_part(folder: &Path) -> Option<&'static str> {
    let part = (["/proc", "/sys", "/dev"].into_iter()).find(|part| folder.starts_with(part));
    part.filter(|_| !folder.starts_with("/dev/shm"))
}
