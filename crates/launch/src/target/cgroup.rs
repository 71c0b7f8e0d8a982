//! [`Cgroup`]: directories of control groups.

use crate::procfs::Mount;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Failure to open a control group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// There is no hierarchy in which groups can be watched.
    #[error(
        "control groups cannot be watched here: neither cgroup v2 nor the v1 `perf_event` \
         hierarchy is mounted. `mount -t cgroup2 none /sys/fs/cgroup` mounts the former"
    )]
    NotMounted,
    /// No group has this name.
    #[error("there is no control group `{name}` below {}: {source}", mount.display())]
    Missing {
        /// Name as it was given.
        name: String,
        /// Mount point of the hierarchy.
        mount: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Open directory of a control group, which stands for it in perf_event_open(2).
#[derive(Debug)]
pub struct Cgroup {
    folder: File,
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl From<Cgroup> for OwnedFd {
    fn from(group: Cgroup) -> OwnedFd {
        group.folder.into()
    }
}

impl Cgroup {
    /// Opens the groups with these names, each once. A group below another of them is left out,
    /// since the events of that one count it already.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn open_all(names: &[String]) -> Result<Vec<Cgroup>, CgroupError> {
        let mount = mount_point(Mount::all()).ok_or(CgroupError::NotMounted)?;
        let found = Cgroup::open_below(&mount, names)?;
        Ok(found.into_iter().map(|(_, group)| group).collect())
    }

    /// Opens groups below a mount point; returns them with their paths, sorted by these.
    fn open_below(mount: &Path, names: &[String]) -> Result<Vec<(PathBuf, Cgroup)>, CgroupError> {
        let mut found: Vec<(PathBuf, Cgroup)> = Vec::new();
        for name in names {
            let missing = |source| CgroupError::Missing {
                name: name.clone(),
                mount: mount.to_owned(),
                source,
            };
            // Canonical, so that `..` does not lead out of the hierarchy.
            let path = mount.join(name.trim_start_matches('/'));
            let path = path.canonicalize().map_err(missing)?;
            if !path.starts_with(mount) || !path.is_dir() {
                return Err(missing(std::io::ErrorKind::NotFound.into()));
            }
            let folder = File::open(&path).map_err(missing)?;
            found.push((path, Cgroup { folder }));
        }
        // Parents come before what is below them.
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept: Vec<(PathBuf, Cgroup)> = Vec::new();
        for (path, group) in found {
            if !kept.iter().any(|(above, _)| path.starts_with(above)) {
                kept.push((path, group));
            }
        }
        Ok(kept)
    }
}

/// Returns the mount point of the hierarchy that the `perf_event` controller belongs to: a v1 hierarchy
/// with it, else v2, in which it always is (cgroups(7)).
fn mount_point(mounts: Vec<Mount>) -> Option<PathBuf> {
    let mut second = None;
    for mount in mounts {
        match mount.kind.as_str() {
            "cgroup" if mount.options.iter().any(|option| option == "perf_event") => {
                return Some(mount.path);
            }
            "cgroup2" => {
                second.get_or_insert(mount.path);
            }
            _ => {}
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_the_controller_is_found() {
        let both = "30 25 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
            31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(
            mount_point(Mount::parse_all(both)),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        let v1 = format!("{both}32 25 0:28 / /cg\\040v1 rw - cgroup cgroup rw,net,perf_event\n");
        assert_eq!(
            mount_point(Mount::parse_all(&v1)),
            Some(PathBuf::from("/cg v1"))
        );
        assert_eq!(mount_point(Vec::new()), None);
    }

    #[test]
    fn groups_are_opened_once_and_never_outside() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().canonicalize().unwrap().join("cg");
        std::fs::create_dir_all(mount.join("a/b")).unwrap();
        std::fs::create_dir_all(mount.join("ab")).unwrap();
        let names = |list: &[&str]| -> Vec<String> { list.iter().map(|n| (*n).into()).collect() };
        let open = |list: &[&str]| {
            let groups = Cgroup::open_below(&mount, &names(list));
            groups.map(|groups| groups.into_iter().map(|(path, _)| path).collect::<Vec<_>>())
        };
        let both = [mount.join("a"), mount.join("ab")];
        assert_eq!(open(&["ab", "a/b", "/a", "a"]).unwrap(), both);
        assert_eq!(open(&["a", "/"]).unwrap(), std::slice::from_ref(&mount));
        for wrong in ["c", "..", "a/../../.."] {
            assert!(matches!(open(&[wrong]), Err(CgroupError::Missing { .. })));
        }
    }
}
