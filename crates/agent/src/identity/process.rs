//! [`ProcessFacts`]: facts about a process from /proc.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rprof_launch::Cgroup;
use rprof_launch::procfs::Procfs;
use rustc_hash::FxHashMap;

use super::CgroupFacts;

/// Maximum bytes read from a file in /proc.
const MAX_BYTES: u64 = 128 << 10;

/// Maximum number of cgroups listed for the root of a namespace.
const MAX_GROUPS: usize = 20_000;

/// Facts that identify a process. Command lines are never read, and environments only if
/// configured: both hold secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Path of the program in the process's mount namespace. `None` for kernel threads, and for
    /// processes that had ended.
    pub exe: Option<String>,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// Container, pod and unit from its cgroup.
    pub cgroup: CgroupFacts,
    /// Service and version from its environment.
    pub from_env: (Option<String>, Option<String>),
}

/// Reader of /proc.
#[derive(Debug)]
pub struct ProcessFacts {
    root: PathBuf,
    reads_env: bool,
    /// Paths by inode. Filled when a process has its own cgroup namespace.
    groups: FxHashMap<u64, String>,
    is_fresh: bool,
}

impl ProcessFacts {
    /// Creates a reader of `/proc`. `reads_env` allows it to read environments.
    pub fn new(reads_env: bool) -> ProcessFacts {
        ProcessFacts {
            root: "/proc".into(),
            reads_env,
            groups: FxHashMap::default(),
            is_fresh: false,
        }
    }

    /// Allows one rescan of cgroups. Call once a window.
    pub fn refresh(&mut self) {
        self.is_fresh = false;
    }

    /// Returns the facts about a running process, or `None` if it has ended.
    pub fn read(&mut self, pid: i32) -> Option<Facts> {
        if pid == 0 {
            return Some(Facts {
                is_kernel: true,
                ..Facts::default()
            });
        }
        let proc = Procfs::new(&self.root);
        let id = u32::try_from(pid).ok()?;
        let is_kernel = proc.stat(id).is_some_and(|stat| stat.is_kernel_thread);
        let folder = self.root.join(proc.id_with_memory(id).to_string());
        let text = read_text(&folder.join("cgroup"))?;
        let (mut cgroup, path) = CgroupFacts::of_file(&text);
        if path == "/" {
            // In a cgroup namespace that is also ours, /proc shows the group as the root.
            cgroup = self.group_of_namespace(&folder).unwrap_or(cgroup);
        }
        let link = fs::read_link(folder.join("exe"));
        let exe = link.ok().map(|path| {
            let path = path.to_string_lossy();
            path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned()
        });
        let from_env = match self.reads_env {
            true => read_bytes(&folder.join("environ"))
                .map(|environment| from_env(&environment))
                .unwrap_or_default(),
            false => (None, None),
        };
        Some(Facts {
            exe,
            is_kernel,
            cgroup,
            from_env,
        })
    }

    /// Finds the cgroup that a process sees as its root, by the inode of its mount point.
    fn group_of_namespace(&mut self, folder: &Path) -> Option<CgroupFacts> {
        let inode = fs::metadata(folder.join("root/sys/fs/cgroup")).ok()?.ino();
        if !self.groups.contains_key(&inode) && !std::mem::replace(&mut self.is_fresh, true) {
            let groups = Cgroup::list(MAX_GROUPS).into_iter();
            self.groups = groups
                .map(|(path, id)| (id, path.to_string_lossy().into_owned()))
                .collect();
        }
        let facts = CgroupFacts::of_path(self.groups.get(&inode)?);
        (!facts.is_empty()).then_some(facts)
    }
}

fn read_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn read_text(path: &Path) -> Option<String> {
    read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Prefers OpenTelemetry's variables to Datadog's. Ignores all others.
fn from_env(environment: &[u8]) -> (Option<String>, Option<String>) {
    let find = |name: &str| {
        let entries = environment.split(|byte| *byte == 0);
        entries
            .filter_map(|entry| std::str::from_utf8(entry).ok())
            .find_map(|entry| {
                let value = entry.strip_prefix(name)?.strip_prefix('=')?;
                (!value.is_empty()).then(|| value.to_owned())
            })
    };
    let attributes = find("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let attribute = |name: &str| {
        attributes.split(',').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let service = find("OTEL_SERVICE_NAME").or_else(|| attribute("service.name"));
    let version = attribute("service.version");
    (
        service.or_else(|| find("DD_SERVICE")),
        version.or_else(|| find("DD_VERSION")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a90123f4e5d6c7b8a9012";

    #[test]
    fn this_process_is_known_and_one_that_ended_is_not() {
        let mut reader = ProcessFacts::new(false);
        let facts = reader.read(std::process::id() as i32).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(facts.exe.as_deref(), exe.to_str());
        assert!(!facts.is_kernel && facts.from_env == (None, None));
        assert_eq!(reader.read(i32::MAX), None);
        assert!(reader.read(0).unwrap().is_kernel);
    }

    #[test]
    fn programs_that_are_ending_are_not_the_kernel() {
        let mut reader = ProcessFacts::new(false);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        // It is not reaped.
        let waited = rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        );
        assert!(waited.unwrap().is_some());
        let zombie = reader.read(pid as i32).unwrap();
        assert_eq!((zombie.exe, zombie.is_kernel), (None, false));
        child.wait().unwrap();
        let threads = Procfs::default();
        let of_kernel = |pid: &u32| threads.stat(*pid).is_some_and(|stat| stat.is_kernel_thread);
        // A container has none.
        for pid in threads
            .process_ids()
            .iter()
            .filter(|pid| of_kernel(pid))
            .take(3)
        {
            assert!(reader.read(*pid as i32).unwrap().is_kernel);
        }
    }

    #[test]
    fn environments_are_read_only_if_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cgroup"), format!("0::/docker/{ID}\n")).unwrap();
        fs::write(
            process.join("environ"),
            "SECRET=x\0DD_SERVICE=dd\0OTEL_SERVICE_NAME=cart\0OTEL_RESOURCE_ATTRIBUTES=a=b,service.version=2\0",
        )
        .unwrap();
        let read = |reads_env| {
            let mut reader = ProcessFacts::new(reads_env);
            reader.root = folder.path().to_owned();
            reader.read(7).unwrap()
        };
        assert_eq!(read(false).from_env, (None, None));
        assert_eq!(
            read(true).from_env,
            (Some("cart".to_owned()), Some("2".to_owned()))
        );
        assert_eq!(read(true).cgroup.container_id.as_deref(), Some(ID));
        assert_eq!(
            from_env(b"DD_SERVICE=dd\0DD_VERSION=3\0"),
            (Some("dd".to_owned()), Some("3".to_owned()))
        );
        assert_eq!(from_env(b"\xff=\0OTEL_SERVICE_NAME="), (None, None));
    }

    #[test]
    fn a_namespace_is_found_by_the_inode_of_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        fs::create_dir_all(process.join("root/sys/fs/cgroup")).unwrap();
        fs::write(process.join("cgroup"), "0::/\n").unwrap();
        let inode = fs::metadata(process.join("root/sys/fs/cgroup"))
            .unwrap()
            .ino();
        let mut reader = ProcessFacts::new(false);
        reader.root = folder.path().to_owned();
        reader.groups.insert(inode, format!("/docker/{ID}"));
        let facts = reader.read(7).unwrap();
        assert_eq!(facts.cgroup.container_id.as_deref(), Some(ID));
    }
}
