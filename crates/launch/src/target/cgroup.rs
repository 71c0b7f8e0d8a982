//! [`Cgroup`]: directories of control groups.

use crate::procfs::Mount;
use std::collections::VecDeque;
use std::fs::{self, DirEntry, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Failure to open a control group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// No hierarchy supports perf events.
    #[error(
        "cannot open events for control groups: neither cgroup v2 nor the v1 `perf_event` \
         hierarchy is mounted. `mount -t cgroup2 none /sys/fs/cgroup` mounts the former"
    )]
    NotMounted,
    /// No group has this name.
    #[error("there is no control group `{name}` below {}{}", mount.display(), missing_text(cause))]
    Missing {
        /// Name as given.
        name: String,
        /// Mount point of the hierarchy.
        mount: PathBuf,
        /// Error of the system. The message has it unless the group is missing.
        cause: std::io::Error,
    },
}

fn missing_text(cause: &std::io::Error) -> String {
    match cause.kind() {
        std::io::ErrorKind::NotFound => "; `systemd-cgls` lists them".to_owned(),
        _ => format!(": {cause}"),
    }
}

/// Open directory of a control group, for perf_event_open(2).
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
    /// Opens the groups with these names, without duplicates. Skips a group below another, because
    /// the other's events already count it.
    ///
    /// # Errors
    /// Returns [`CgroupError`].
    pub fn open_all(names: &[String]) -> Result<Vec<Cgroup>, CgroupError> {
        let mount = mount_point(Mount::all()).ok_or(CgroupError::NotMounted)?;
        let found = Cgroup::open_below(&mount, names)?;
        Ok(found.into_iter().map(|(_, group)| group).collect())
    }

    /// Lists control groups with their ids, parents first: `/` for the root of the hierarchy, else
    /// `/a/b`. Returns at most `most`; none if no hierarchy is mounted.
    ///
    /// The id equals the one in samples (`PERF_SAMPLE_CGROUP`), and the inode number of the group if
    /// inodes have 64 bits (`cgroup_id` in the kernel).
    pub fn list(most: usize) -> Vec<(PathBuf, u64)> {
        mount_point(Mount::all()).map_or_else(Vec::new, |mount| list_below(&mount, most))
    }

    /// Opens groups below a mount point. Returns them sorted by path.
    fn open_below(mount: &Path, names: &[String]) -> Result<Vec<(PathBuf, Cgroup)>, CgroupError> {
        let mut found: Vec<(PathBuf, Cgroup)> = Vec::new();
        for name in names {
            let missing = |cause| CgroupError::Missing {
                name: name.clone(),
                mount: mount.to_owned(),
                cause,
            };
            // Canonical, so that `..` cannot leave the hierarchy.
            let path = mount.join(name.trim_start_matches('/'));
            let path = path.canonicalize().map_err(missing)?;
            if !path.starts_with(mount) || !path.is_dir() {
                return Err(missing(std::io::ErrorKind::NotFound.into()));
            }
            let folder = File::open(&path).map_err(missing)?;
            found.push((path, Cgroup { folder }));
        }
        // Parents come before their descendants.
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

/// Lists the folders below a mount point with their inode numbers, level by level.
fn list_below(mount: &Path, most: usize) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = VecDeque::from([mount.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        let Ok(metadata) = fs::symlink_metadata(&folder) else {
            continue;
        };
        let below = folder.strip_prefix(mount).unwrap_or(&folder);
        found.push((Path::new("/").join(below), metadata.ino()));
        let entries = fs::read_dir(&folder).into_iter().flatten();
        let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let inner = entries.filter_map(Result::ok).filter(is_folder);
        let room = most.saturating_sub(found.len() + folders.len());
        folders.extend(inner.take(room).map(|entry| entry.path()));
    }
    found
}

/// Returns the mount point of the hierarchy with the `perf_event` controller: a v1 hierarchy, or
/// else v2, which always has it (cgroups(7)).
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
    fn groups_are_listed_with_parents_first_and_not_without_end() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["a/b/c", "d"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        let all = list_below(root.path(), 100);
        let mut paths: Vec<&str> = all.iter().filter_map(|(path, _)| path.to_str()).collect();
        assert_eq!(paths.first(), Some(&"/"));
        paths.sort_unstable();
        assert_eq!(paths, ["/", "/a", "/a/b", "/a/b/c", "/d"]);
        let inode = fs::metadata(root.path().join("d")).unwrap().ino();
        assert!(all.contains(&("/d".into(), inode)));
        assert_eq!(list_below(root.path(), 2).len(), 2);
    }

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
        fs::create_dir_all(mount.join("a/b")).unwrap();
        fs::create_dir_all(mount.join("ab")).unwrap();
        let names = |list: &[&str]| -> Vec<String> { list.iter().map(|n| (*n).into()).collect() };
        let open = |list: &[&str]| {
            let groups = Cgroup::open_below(&mount, &names(list));
            groups.map(|groups| groups.into_iter().map(|(path, _)| path).collect::<Vec<_>>())
        };
        let both = [mount.join("a"), mount.join("ab")];
        assert_eq!(open(&["ab", "a/b", "/a", "a"]).unwrap(), both);
        assert_eq!(open(&["a", "/"]).unwrap(), std::slice::from_ref(&mount));
        for wrong in ["c", "..", "a/../../.."] {
            let error = open(&[wrong]).unwrap_err();
            assert!(matches!(error, CgroupError::Missing { .. }));
            assert!(error.to_string().ends_with("; `systemd-cgls` lists them"));
            assert!(
                std::error::Error::source(&error).is_none(),
                "the cause is in the text"
            );
        }
    }
}
