//! The directories that names of control groups mean.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// What makes a control group unusable.
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
        /// The name as it was given.
        name: String,
        /// Where it was looked for.
        mount: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// An open directory of a control group.
#[derive(Debug)]
pub struct Cgroup {
    folder: File,
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl Cgroup {
    /// Opens the groups with these names, each once. A group below another of them is left out,
    /// since the events of that one count it already.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn open_all(names: &[String]) -> Result<Vec<Cgroup>, CgroupError> {
        let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mount =
            mount_point(&String::from_utf8_lossy(&mounts)).ok_or(CgroupError::NotMounted)?;
        let found = Cgroup::open_below(&mount, names)?;
        Ok(found.into_iter().map(|(_, group)| group).collect())
    }

    /// With their paths, in the order of these.
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

/// Where the hierarchy is mounted that the `perf_event` controller belongs to: a v1 hierarchy
/// with it, else v2, in which it always is (cgroups(7)).
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    let mut second = None;
    for line in mountinfo.lines() {
        // Fields up to ` - ` vary in number; behind it are type, source, options (proc_pid_mountinfo(5)).
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        let Some(place) = before.split(' ').nth(4) else {
            continue;
        };
        let place = PathBuf::from(unescape(place));
        match kind {
            Some("cgroup") if options.split(',').any(|option| option == "perf_event") => {
                return Some(place);
            }
            Some("cgroup2") => {
                second.get_or_insert(place);
            }
            _ => {}
        }
    }
    second
}

/// Octal escapes of blanks and backslashes, undone.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, sign)| {
        text.replace(code, sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_the_controller_is_found() {
        let both = "30 25 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
            31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(
            mount_point(both),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        let v1 = format!("{both}32 25 0:28 / /cg\\040v1 rw - cgroup cgroup rw,net,perf_event\n");
        assert_eq!(mount_point(&v1), Some(PathBuf::from("/cg v1")));
        assert_eq!(mount_point("nonsense\n1 2 3 - \n"), None);
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
