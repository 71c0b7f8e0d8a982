//! Where the files of a process are: under which root, by which number, whose they have to be.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How files of a process may be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The folder that is its `/`.
    pub root: PathBuf,
    /// Its number, as it knows it itself.
    pub pid: i32,
    /// Users that files may belong to.
    pub owners: Vec<u32>,
}

/// The usual path of a perf map, by the number that the process knows itself by.
#[must_use]
pub fn perf_map(pid: i32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// Whether a path is that of a jitdump: `.../jit-PID.dump`.
#[must_use]
pub fn is_jitdump(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let number = (name.strip_prefix(b"jit-")).and_then(|rest| rest.strip_suffix(b".dump"));
    number.is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
}

/// The process as it is now: `None` where there is none of that number any more.
#[must_use]
pub fn living(pid: i32) -> Option<View> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let owner = std::fs::metadata(&proc).ok()?.uid();
    let status = std::fs::read_to_string(proc.join("status")).ok()?;
    // The last is that of its own namespace.
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inside = inside.and_then(|pids| pids.split_ascii_whitespace().last()?.parse().ok());
    Some(View {
        root: proc.join("root"),
        pid: inside.unwrap_or(pid),
        owners: vec![owner],
    })
}

/// As its files are seen from here, whether it lives or not.
#[must_use]
pub fn from_here(pid: i32) -> View {
    View {
        root: PathBuf::from("/"),
        pid,
        owners: Vec::new(),
    }
}

/// How files of a process may be seen that was recorded in a file like this: through the
/// process, if it still lives, then from here. One that began after the recording is
/// another one with its number.
#[must_use]
pub fn views(pid: i32, recording: Option<Metadata>) -> Vec<View> {
    let recorded = recording.and_then(|metadata| metadata.modified().ok());
    let is_same = || match (recorded, began(pid)) {
        (Some(recorded), Some(began)) => began <= recorded,
        _ => true,
    };
    let living = living(pid).filter(|_| is_same());
    living.into_iter().chain([from_here(pid)]).collect()
}

/// When a process began, to a second.
fn began(pid: i32) -> Option<SystemTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').nth(19)?.parse().ok()?;
    let since_boot = Duration::from_secs(ticks / rustix::param::clock_ticks_per_second());
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let age = Duration::try_from_secs_f64(uptime).ok()?;
    SystemTime::now().checked_sub(age.checked_sub(since_boot)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jitdumps() {
        for (path, is_one) in [
            (&b"/root/.debug/jit/java-jit-2026/jit-123.dump"[..], true),
            (b"jit-1.dump", true),
            (b"/tmp/jit-.dump", false),
            (b"/tmp/jit-1x.dump", false),
            (b"/tmp/xjit-1.dump", false),
            (b"/tmp/jit-1.dump.so", false),
        ] {
            assert_eq!(is_jitdump(path), is_one, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn this_process_lives_and_began_a_while_ago() {
        let us = std::process::id() as i32;
        let seen = living(us).unwrap();
        assert_eq!(seen.owners, [rustix::process::geteuid().as_raw()]);
        assert!(seen.pid > 0 && seen.pid <= us);
        let age = began(us).unwrap().elapsed().unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        assert_eq!(living(i32::MAX), None);
        assert_eq!(views(i32::MAX, None), [from_here(i32::MAX)]);
    }
}
