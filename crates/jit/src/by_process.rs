//! [`JitProcesses`]: processes with JIT code, and the files that describe it.
//!
//! Executable mappings reveal a JIT: memory without a program behind it, or a page of a jitdump. A
//! forked process shares its parent's code, so lookups continue with the files of its ancestors. An
//! exec ends both.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rprof_processes::ImageKind;
use rustc_hash::FxHashMap;

/// Maximum number of processes to consult: the process itself and its nearest ancestors.
pub const MAX_LINEAGE: usize = 8;

/// Maximum number of jitdumps of one process.
pub const MAX_JITDUMPS: usize = 16;

/// Executable mapping that points to JIT code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitMapping {
    /// Page of a jitdump, mapped so that recorders find the file.
    Jitdump,
    /// Memory that may hold JIT code described by a perf map.
    Memory(ImageKind),
}

impl JitMapping {
    /// Classifies an executable mapping by its name. `None` for plain files and the kernel's
    /// mappings.
    #[must_use]
    pub fn of(path: &[u8]) -> Option<Self> {
        if is_jitdump(path) {
            return Some(Self::Jitdump);
        }
        let kind = ImageKind::of_user(path);
        may_hold_jit_code(kind).then_some(Self::Memory(kind))
    }

    /// Returns true if the mapping may also be an ELF image (memfd, or a deleted program).
    #[must_use]
    pub fn may_be_image(self) -> bool {
        use ImageKind::{Deleted, Memfd};
        matches!(self, Self::Memory(Memfd | Deleted))
    }
}

/// Returns true if memory of this kind may hold JIT code.
#[must_use]
pub fn may_hold_jit_code(kind: ImageKind) -> bool {
    matches!(
        kind,
        ImageKind::Anonymous
            | ImageKind::Memfd
            | ImageKind::Heap
            | ImageKind::Stack
            | ImageKind::Deleted
            | ImageKind::Other
    )
}

/// Returns true if a path names a jitdump: `.../jit-PID.dump`, or `.../jit-TID-PID.dump` of Bun.
#[must_use]
pub fn is_jitdump(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let numbers = (name.strip_prefix(b"jit-")).and_then(|rest| rest.strip_suffix(b".dump"));
    let is_number = |n: &[u8]| !n.is_empty() && n.iter().all(u8::is_ascii_digit);
    numbers.is_some_and(|numbers| {
        let mut parts = numbers.splitn(3, |byte| *byte == b'-');
        parts.by_ref().take(2).all(is_number) && parts.next().is_none()
    })
}

/// JIT processes, their jitdumps and parents. Takes process events in time order.
///
/// # Examples
/// ```
/// use rprof_jit::JitProcesses;
///
/// let mut processes = JitProcesses::default();
/// processes.handle_mapped(7, b"/tmp/jit-7.dump");
/// processes.handle_fork(8, 7);
/// // The child's own files come first, then its parent's.
/// assert_eq!(processes.lineage(8).collect::<Vec<_>>(), [8, 7]);
/// assert_eq!(processes.jitdumps(7).len(), 1);
///
/// processes.handle_exec(8);
/// assert_eq!(processes.lineage(8).collect::<Vec<_>>(), [8]);
/// ```
#[derive(Debug, Default)]
pub struct JitProcesses {
    /// By pid; empty for a process with JIT memory only.
    jitdumps: FxHashMap<i32, Vec<PathBuf>>,
    parents: FxHashMap<i32, i32>,
    /// Time of the last fork or exec of a process.
    started: FxHashMap<i32, u64>,
}

impl JitProcesses {
    /// Handles an executable mapping. Returns its kind if it points to JIT code.
    pub fn handle_mapped(&mut self, pid: i32, path: &[u8]) -> Option<JitMapping> {
        let mapping = JitMapping::of(path)?;
        let jitdumps = self.jitdumps.entry(pid).or_default();
        if mapping == JitMapping::Jitdump {
            let path = Path::new(OsStr::from_bytes(path));
            let is_known = jitdumps.iter().any(|known| known == path);
            if !is_known && jitdumps.len() < MAX_JITDUMPS {
                jitdumps.push(path.to_owned());
            }
        }
        Some(mapping)
    }

    /// Handles a fork: the child shares its parent's code.
    pub fn handle_fork(&mut self, pid: i32, parent: i32) {
        if pid != parent {
            self.parents.insert(pid, parent);
        }
    }

    /// Handles an exec. The process loses its ancestors' code, and keeps its own files for earlier
    /// samples.
    pub fn handle_exec(&mut self, pid: i32) {
        self.parents.remove(&pid);
    }

    /// Handles the time of a fork or an exec, in any unit. Older files belong to another process.
    pub fn handle_start(&mut self, pid: i32, time: u64) {
        self.started.insert(pid, time);
    }

    /// Returns the last time given to [`handle_start`](Self::handle_start).
    #[must_use]
    pub fn started(&self, pid: i32) -> Option<u64> {
        self.started.get(&pid).copied()
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: i32) {
        self.started.remove(&pid);
        self.jitdumps.remove(&pid);
        self.parents.remove(&pid);
    }

    /// Returns the paths of a process's jitdumps in its own namespace, oldest first.
    #[must_use]
    pub fn jitdumps(&self, pid: i32) -> &[PathBuf] {
        self.jitdumps.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Iterates over the processes with a jitdump or JIT memory.
    pub fn iter(&self) -> impl Iterator<Item = i32> {
        self.jitdumps.keys().copied()
    }

    /// Iterates over `pid` and its ancestors since the last exec, nearest first: their files
    /// describe its code.
    pub fn lineage(&self, pid: i32) -> impl Iterator<Item = i32> {
        let parent = |pid: &i32| self.parents.get(pid).copied();
        std::iter::successors(Some(pid), parent).take(MAX_LINEAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitdumps_are_recognised_by_name() {
        for (path, is_one) in [
            (&b"/root/.debug/jit/java-jit-2026/jit-123.dump"[..], true),
            (b"jit-1.dump", true),
            (b"/tmp/jit-12-3.dump", true),
            (b"/tmp/jit-1-.dump", false),
            (b"/tmp/jit-1-2-3.dump", false),
            (b"/tmp/jit-.dump", false),
            (b"/tmp/jit-1x.dump", false),
            (b"/tmp/xjit-1.dump", false),
            (b"/tmp/jit-1.dump.so", false),
        ] {
            assert_eq!(is_jitdump(path), is_one, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn executable_mappings_are_classified() {
        use ImageKind::{Anonymous, Deleted, Memfd};
        for (path, expected, may_be_image) in [
            (&b"/tmp/jit-1.dump"[..], Some(JitMapping::Jitdump), false),
            (b"//anon", Some(JitMapping::Memory(Anonymous)), false),
            (
                b"/memfd:doublemapper (deleted)",
                Some(JitMapping::Memory(Memfd)),
                true,
            ),
            (
                b"/usr/bin/old (deleted)",
                Some(JitMapping::Memory(Deleted)),
                true,
            ),
            (b"/usr/bin/node", None, false),
            (b"[vdso]", None, false),
        ] {
            let mapping = JitMapping::of(path);
            assert_eq!(mapping, expected, "{}", path.escape_ascii());
            assert_eq!(mapping.is_some_and(JitMapping::may_be_image), may_be_image);
        }
    }

    #[test]
    fn ancestors_are_consulted_up_to_the_last_exec() {
        let mut processes = JitProcesses::default();
        for pid in 2..20 {
            processes.handle_fork(pid, pid - 1);
        }
        processes.handle_fork(19, 19);
        let lineage: Vec<i32> = processes.lineage(19).collect();
        assert_eq!(lineage, [19, 18, 17, 16, 15, 14, 13, 12]);
        processes.handle_exec(18);
        assert_eq!(processes.lineage(19).collect::<Vec<_>>(), [19, 18]);
        // Reused pids may form a cycle.
        processes.handle_fork(18, 19);
        assert_eq!(processes.lineage(19).count(), MAX_LINEAGE);
    }

    #[test]
    fn a_process_has_a_bounded_number_of_jitdumps_each_once() {
        let mut processes = JitProcesses::default();
        for n in 0..100 {
            for _ in 0..2 {
                processes.handle_mapped(1, format!("/tmp/jit-{n}.dump").as_bytes());
            }
        }
        processes.handle_mapped(2, b"//anon");
        assert_eq!(processes.jitdumps(1).len(), MAX_JITDUMPS);
        assert_eq!(processes.jitdumps(1)[1], Path::new("/tmp/jit-1.dump"));
        assert!(processes.jitdumps(2).is_empty());
        assert_eq!(processes.iter().count(), 2);
        processes.forget(1);
        assert_eq!(processes.iter().collect::<Vec<_>>(), [2]);
    }
}
