//! The threads that a target means at this moment, from /proc.

use super::{Attached, Target};
use std::path::{Path, PathBuf};

/// Threads to be looked up, again and again.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All threads of these processes.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
    /// All threads of the processes whose effective user this is, but for this one process.
    User {
        /// The effective user.
        uid: u32,
        /// The process that is left out: the recorder.
        except: u32,
    },
}

impl Selection {
    /// What to look up for a target, unless whole CPUs or a command are watched.
    pub fn of(target: &Target, exclude_self: bool) -> Option<Selection> {
        let me = std::process::id();
        let unique = |ids: &[u32]| {
            let mut ids: Vec<u32> = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        match target {
            Target::Processes(pids) => {
                let mut pids = unique(pids);
                pids.retain(|pid| !exclude_self || *pid != me);
                Some(Selection::Processes(pids))
            }
            Target::Threads(tids) => Some(Selection::Threads(unique(tids))),
            Target::User(uid) => Some(Selection::User {
                uid: *uid,
                except: me,
            }),
            Target::Command | Target::System | Target::Cgroups(_) => None,
        }
    }

    /// Whether the user named each by its number, so that one which is refused is an error.
    pub fn is_by_number(&self) -> bool {
        !matches!(self, Selection::User { .. })
    }

    /// How it is put in messages.
    pub fn describe(&self) -> String {
        let list = |one: &str, many: &str, ids: &[u32]| match ids {
            [id] => format!("{one} {id}"),
            ids => {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                format!("{many} {}", ids.join(", "))
            }
        };
        match self {
            Selection::Processes(pids) => list("process", "processes", pids),
            Selection::Threads(tids) => list("thread", "threads", tids),
            Selection::User { uid, .. } => format!("user {uid}"),
        }
    }

    /// The threads as they are now, in the order of their ids. What is gone is left out.
    pub fn list(&self) -> Vec<Attached> {
        self.list_in(Path::new("/proc"))
    }

    fn list_in(&self, proc: &Path) -> Vec<Attached> {
        let mut found = Vec::new();
        match self {
            Selection::Processes(pids) => {
                for pid in pids {
                    threads_of(proc, *pid, &mut found);
                }
            }
            Selection::Threads(tids) => {
                let owner = |tid: &u32| Some((*tid, status_field(proc, *tid, "Tgid:", 0)?));
                let threads = tids.iter().filter_map(owner);
                found.extend(threads.map(|(tid, pid)| Attached { pid, tid }));
            }
            Selection::User { uid, except } => {
                for pid in numbers_in(proc).filter(|pid| pid != except) {
                    if effective_uid(proc, pid) == Some(*uid) {
                        threads_of(proc, pid, &mut found);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn threads_of(proc: &Path, pid: u32, found: &mut Vec<Attached>) {
    let tasks: PathBuf = proc.join(pid.to_string()).join("task");
    found.extend(numbers_in(&tasks).map(|tid| Attached { pid, tid }));
}

/// The names in a directory that are numbers; none when it cannot be read.
fn numbers_in(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The effective user, which is the second of real, effective, saved and file system.
fn effective_uid(proc: &Path, pid: u32) -> Option<u32> {
    status_field(proc, pid, "Uid:", 1)
}

/// A word of a line of a thread's status (proc_pid_status(5)).
fn status_field(proc: &Path, tid: u32, name: &str, word: usize) -> Option<u32> {
    // Bytes, since the thread's name is among them.
    let status = std::fs::read(proc.join(tid.to_string()).join("status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().nth(word)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_number_and_thread() {
        let me = std::process::id();
        let own = Attached { pid: me, tid: me };
        let processes = Selection::Processes(vec![me, me]);
        let found = processes.list();
        assert_eq!(found.iter().filter(|thread| **thread == own).count(), 1);
        assert!(found.iter().all(|thread| thread.pid == me));
        // A thread that is not the first of its process finds its way to it.
        let mine = std::thread::spawn(|| {
            // SAFETY: no arguments.
            let tid = unsafe { libc::gettid() } as u32;
            (tid, Selection::Threads(vec![tid, u32::MAX]).list())
        });
        let (tid, found) = mine.join().unwrap();
        assert_eq!(found, [Attached { pid: me, tid }]);
    }

    #[test]
    fn a_user_has_processes_but_not_this_one() {
        let me = std::process::id();
        // SAFETY: no arguments.
        let uid = unsafe { libc::geteuid() };
        let with = Selection::User { uid, except: 0 }.list();
        let without = Selection::User { uid, except: me }.list();
        assert!(with.iter().any(|thread| thread.pid == me));
        assert!(without.iter().all(|thread| thread.pid != me));
    }

    #[test]
    fn nothing_is_found_of_what_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        for selection in [
            Selection::Processes(vec![1]),
            Selection::Threads(vec![1]),
            Selection::User { uid: 0, except: 0 },
        ] {
            assert!(selection.list_in(folder.path()).is_empty());
        }
    }

    #[test]
    fn targets_are_described() {
        let of = |target| Selection::of(&target, false).unwrap().describe();
        assert_eq!(of(Target::Processes(vec![7])), "process 7");
        assert_eq!(of(Target::Threads(vec![7, 8, 7])), "threads 7, 8");
        assert_eq!(of(Target::User(1000)), "user 1000");
        assert!(Selection::of(&Target::System, false).is_none());
    }
}
