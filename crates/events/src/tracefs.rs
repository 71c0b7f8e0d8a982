//! Tracepoints in tracefs.
//!
//! `/sys/kernel/tracing/events/SYSTEM/NAME/` contains a tracepoint's number (`id`) for
//! perf_event_open(2), and the format of its payload (`format`). This crate mounts nothing: if
//! tracefs is missing, [`TracefsError`] suggests how to mount it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::glob::{is_pattern, matches};

/// Usual mount point.
const USUAL: &str = "/sys/kernel/tracing";

/// Mount point before Linux 4.1, within debugfs.
const OLD: &str = "/sys/kernel/debug/tracing";

/// Failure to look up tracepoints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// tracefs is not mounted.
    #[error(
        "tracefs, which lists tracepoints, is not mounted; as root: mount -t tracefs tracefs \
         {USUAL}"
    )]
    NotMounted,
    /// This user may not read tracefs.
    #[error(
        "no permission to read {}, which lists tracepoints; run as root, or give a group access \
         (as root: mount -o remount,gid=GROUP,mode=750 {})",
        path.display(), root.display()
    )]
    Denied {
        /// Refused file or folder.
        path: PathBuf,
        /// Mount point of tracefs.
        root: PathBuf,
    },
    /// Any other failure.
    #[error("cannot read {}: {why}", path.display())]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        why: String,
    },
}

/// A mounted tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds the mount point and opens it.
    ///
    /// # Errors
    /// Returns [`TracefsError::NotMounted`] or [`TracefsError::Denied`].
    pub fn find() -> Result<Tracefs, TracefsError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let candidates = [PathBuf::from(USUAL), PathBuf::from(OLD)]
            .into_iter()
            .chain(mounted(&mounts));
        let mut denied = None;
        for root in candidates {
            match Tracefs::open(&root) {
                Ok(found) => return Ok(found),
                Err(TracefsError::NotMounted) => {}
                Err(error) => denied = denied.or(Some(error)),
            }
        }
        // debugfs is closed to users, so tracefs may be inside. Reported only if it is mounted.
        match denied {
            Some(error) if mounted(&mounts).next().is_some() => Err(error),
            _ => Err(TracefsError::NotMounted),
        }
    }

    /// Opens tracefs at this mount point.
    ///
    /// # Errors
    /// Returns the errors of [`find`](Self::find).
    pub fn open(root: &Path) -> Result<Tracefs, TracefsError> {
        let events = root.join("events");
        match fs::read_dir(&events) {
            Ok(_) => Ok(Tracefs {
                root: root.to_owned(),
            }),
            Err(e) => Err(failure(root, &events, &e)),
        }
    }

    /// Returns the mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a tracepoint's number; `None` for an unknown name.
    ///
    /// # Errors
    /// Returns [`TracefsError::Denied`] or [`TracefsError::Read`].
    pub fn id(&self, system: &str, name: &str) -> Result<Option<u64>, TracefsError> {
        match self.file(system, name, "id")? {
            None => Ok(None),
            Some(text) => match String::from_utf8_lossy(&text).trim().parse() {
                Ok(id) => Ok(Some(id)),
                Err(_) => Err(TracefsError::Read {
                    path: self.event_folder(system, name).join("id"),
                    why: "it does not contain a number".to_owned(),
                }),
            },
        }
    }

    /// Reads the format of a tracepoint's payload; `None` for an unknown name.
    ///
    /// # Errors
    /// Returns [`TracefsError::Denied`] or [`TracefsError::Read`].
    pub fn format(&self, system: &str, name: &str) -> Result<Option<Vec<u8>>, TracefsError> {
        self.file(system, name, "format")
    }

    /// Reads a file by its path below the mount point, such as `events/header_page`.
    ///
    /// # Errors
    /// Returns [`TracefsError::Denied`] or [`TracefsError::Read`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, TracefsError> {
        let path = self.root.join(path);
        read(&path).map_err(|e| failure(&self.root, &path, &e))
    }

    /// Lists the systems with tracepoints, by name.
    pub fn systems(&self) -> Vec<String> {
        folders(&self.root.join("events"))
    }

    /// Lists a system's tracepoints by name, including ftrace's own without a number.
    pub fn events(&self, system: &str) -> Vec<String> {
        match is_name(system) {
            true => folders(&self.root.join("events").join(system)),
            false => Vec::new(),
        }
    }

    /// Lists the tracepoints that match two names or patterns, as (system, name).
    pub fn select(&self, system: &str, name: &str) -> Vec<(String, String)> {
        let systems = match is_pattern(system) {
            true => self.systems(),
            false => vec![system.to_owned()],
        };
        let mut found = Vec::new();
        for known in systems.into_iter().filter(|s| matches(system, s)) {
            let events = self.events(&known).into_iter();
            found.extend(
                events
                    .filter(|e| matches(name, e))
                    .map(|e| (known.clone(), e)),
            );
        }
        found
    }

    /// Finds the tracepoint with a number, by reading `id` files.
    pub fn by_id(&self, id: u64) -> Option<(String, String)> {
        self.systems().into_iter().find_map(|system| {
            let mut events = self.events(&system).into_iter();
            let name = events.find(|name| self.id(&system, name) == Ok(Some(id)))?;
            Some((system, name))
        })
    }

    fn event_folder(&self, system: &str, name: &str) -> PathBuf {
        self.root.join("events").join(system).join(name)
    }

    fn file(&self, system: &str, name: &str, file: &str) -> Result<Option<Vec<u8>>, TracefsError> {
        if !is_name(system) || !is_name(name) {
            return Ok(None);
        }
        let path = self.event_folder(system, name).join(file);
        match read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failure(&self.root, &path, &e)),
        }
    }
}

/// Returns false for text that leads outside tracefs.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/') && !text.contains('\0')
}

/// Reads a file, up to 16 MiB, with a large buffer.
///
/// Some files in tracefs (`header_page`) return their text only to the first read(2), for which the
/// standard library uses a small buffer.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    const PIECE: usize = 8 << 10;
    const LIMIT: usize = 16 << 20;
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    loop {
        let len = bytes.len();
        bytes.resize(len + PIECE, 0);
        let got = file.read(&mut bytes[len..]);
        bytes.truncate(len + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => return Ok(bytes),
            Ok(_) if bytes.len() < LIMIT => {}
            Ok(_) => return Err(io::Error::other("it is larger than 16 MiB")),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn failure(root: &Path, path: &Path, error: &io::Error) -> TracefsError {
    match error.kind() {
        io::ErrorKind::NotFound => TracefsError::NotMounted,
        io::ErrorKind::PermissionDenied => TracefsError::Denied {
            path: path.to_owned(),
            root: root.to_owned(),
        },
        _ => TracefsError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        },
    }
}

fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Lists the mount points of tracefs (fstab(5)).
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == "tracefs").then(|| PathBuf::from(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracefs_with(events: &[(&str, &str, &str)]) -> (tempfile::TempDir, Tracefs) {
        let root = tempfile::tempdir().unwrap();
        for (system, name, id) in events {
            let folder = root.path().join("events").join(system).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("id"), id).unwrap();
        }
        let tracefs = Tracefs::open(root.path()).unwrap();
        (root, tracefs)
    }

    #[test]
    fn tracepoints_are_found_by_name_number_and_pattern() {
        let (_root, tracefs) = tracefs_with(&[
            ("sched", "sched_switch", "316\n"),
            ("sched", "sched_wakeup", "318\n"),
            ("irq", "softirq_entry", "50\n"),
        ]);
        assert_eq!(tracefs.id("sched", "sched_switch"), Ok(Some(316)));
        assert_eq!(tracefs.id("sched", "nothing"), Ok(None));
        assert_eq!(tracefs.id("../sched", "sched_switch"), Ok(None));
        assert_eq!(tracefs.select("sched", "sched_*").len(), 2);
        assert_eq!(
            tracefs.select("*", "*entry"),
            [("irq".into(), "softirq_entry".into())]
        );
        assert_eq!(
            tracefs.by_id(318),
            Some(("sched".into(), "sched_wakeup".into()))
        );
    }

    #[test]
    fn an_unmounted_tracefs_is_an_error_with_its_remedy() {
        let root = tempfile::tempdir().unwrap();
        let error = Tracefs::open(root.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("mount -t tracefs tracefs /sys/kernel/tracing")
        );
        let (_root, tracefs) = tracefs_with(&[("sched", "sched_switch", "x")]);
        assert!(matches!(
            tracefs.id("sched", "sched_switch"),
            Err(TracefsError::Read { .. })
        ));
    }

    #[test]
    fn mounts_are_found_by_their_type() {
        let mounts = "proc /proc proc rw 0 0\nnone /mnt/t tracefs rw 0 0\n";
        let places: Vec<_> = mounted(mounts).collect();
        assert_eq!(places, [PathBuf::from("/mnt/t")]);
    }
}
