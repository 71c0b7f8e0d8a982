//! Programs that change privileges at exec, which the kernel stops sampling.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Access;

/// Explains an empty recording if exec changes privileges, or the file is unreadable. The kernel
/// then removes the task's events (begin_new_exec in fs/exec.c).
pub(crate) fn hidden_by(program: &OsStr) -> Option<String> {
    let path = rprof_launch::find_program(program)?;
    let shown = path.display();
    let record = "the kernel then stops recording it";
    if rustix::fs::access(&path, Access::READ_OK).is_err() {
        return Some(format!(
            "{shown} is not readable by this user, and {record}; record as a user who may read it"
        ));
    }
    let is_root = rustix::process::geteuid().is_root();
    changes_rights(&path, &path.metadata().ok()?, is_root).then(|| {
        let remedy = match is_root {
            true => "record the whole system while it runs (-a)",
            false => "record the program that it runs: `sudo rprof record -- COMMAND`",
        };
        format!(
            "{shown} changes privileges when it starts (set-user-ID, set-group-ID or file \
             capabilities), and {record}; {remedy}"
        )
    })
}

/// Root has all capabilities and gains none from a file.
fn changes_rights(path: &Path, file: &Metadata, is_root: bool) -> bool {
    let mode = file.permissions().mode();
    let user = mode & 0o4000 != 0 && file.uid() != rustix::process::getuid().as_raw();
    let group = mode & 0o2010 == 0o2010 && file.gid() != rustix::process::getgid().as_raw();
    let mut room = [0_u8; 64];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut room).is_ok();
    user || group || (capabilities && !is_root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_programs_change_no_rights_and_set_user_id_programs_do() {
        assert_eq!(hidden_by(OsStr::new("sh")), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::copy("/bin/sh", &path).unwrap();
        assert_eq!(hidden_by(path.as_os_str()), None);
        // The group bit needs the execute bit.
        let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        set(0o4755);
        assert_eq!(hidden_by(path.as_os_str()), None);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            set(0o4755);
            let why = hidden_by(path.as_os_str()).unwrap();
            assert!(
                why.contains("set-user-ID") && why.ends_with("(-a)"),
                "{why}"
            );
        }
    }
}
