//! Programs that the kernel lets nobody watch.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// Why nothing was seen of this program: at an exec that changes rights, or of a file that the
/// caller may not read, the kernel takes a task's events away (begin_new_exec in fs/exec.c).
pub(crate) fn hidden_by(program: &OsStr) -> Option<String> {
    let path = find(program)?;
    let shown = path.display();
    let record = "the kernel ends the recording there";
    if rustix::fs::access(&path, Access::READ_OK).is_err() {
        return Some(format!(
            "{shown} may not be read by this user, and {record}; record as one who may"
        ));
    }
    changes_rights(&path, &path.metadata().ok()?).then(|| {
        format!(
            "{shown} takes on other rights when it starts (set-user-ID, set-group-ID or file \
             capabilities), and {record}; record what it runs, as `sudo rprof record -- COMMAND`"
        )
    })
}

fn changes_rights(path: &Path, file: &Metadata) -> bool {
    let mode = file.permissions().mode();
    let user = mode & 0o4000 != 0 && file.uid() != rustix::process::getuid().as_raw();
    let group = mode & 0o2010 == 0o2010 && file.gid() != rustix::process::getgid().as_raw();
    let mut room = [0_u8; 64];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut room).is_ok();
    user || group || capabilities
}

/// The file that is executed for this name.
fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok())
}
