//! A hostile process beside a recorder that runs as root: `fixtures/mallory.c`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{Here, Shell, c};

/// Options of setpriv for an unprivileged user.
pub(super) const NOBODY: &str = "--reuid 65534 --regid 65534 --clear-groups --inh-caps=-all";

/// A world-searchable folder with the programs, and one that the neighbour owns.
pub(super) struct Neighbour {
    folder: tempfile::TempDir,
}

impl Neighbour {
    pub(super) fn new(here: &Here) -> Neighbour {
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let neighbour = Neighbour { folder };
        set_mode(&neighbour.path(""), 0o755);
        // Copied by another process: see `Here::copy`.
        let mallory = neighbour.path("mallory");
        here.command("cp").arg(c("mallory.c")).arg(&mallory).ok();
        std::fs::create_dir(neighbour.path("theirs")).expect("a folder");
        std::os::unix::fs::chown(neighbour.path("theirs"), Some(65534), Some(65534)).unwrap();
        neighbour
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a file that only root may read.
    pub(super) fn secret(&self, text: &str) -> PathBuf {
        let path = self.path("secret");
        std::fs::write(&path, text).expect("a file");
        set_mode(&path, 0o600);
        path
    }

    pub(super) fn recorded(&self, here: &Here, options: &str) -> Shell {
        let record = here.rprof("record -v -F 999 -e cpu-clock").words(options);
        record.words("-- setpriv").words(NOBODY)
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("the mode is set");
}
