//! [`ThreadSelection`]: the current threads of a target, from /proc.

use super::scope::{Target, TargetThread};
use crate::procfs::Procfs;

/// Rule for finding the threads of a target, usable repeatedly.
#[derive(Clone, Debug)]
pub enum ThreadSelection {
    /// Threads of these processes.
    Processes(Vec<u32>),
    /// Single threads.
    Threads(Vec<u32>),
    /// Threads of a user's processes.
    User {
        /// Effective user.
        uid: u32,
        /// Excluded process: the recorder.
        except: u32,
    },
}

impl ThreadSelection {
    /// Returns the rule for a target; `None` for whole CPUs and commands. In a list of processes, a
    /// thread id means its process, as in perf. `exclude_self` removes the calling process from a
    /// list of processes. A user's processes never include it.
    pub fn from_target(target: &Target, exclude_self: bool) -> Option<ThreadSelection> {
        let proc = Procfs::default();
        let me = std::process::id();
        let unique = |ids: &[u32]| {
            let mut ids: Vec<u32> = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        match target {
            Target::Processes(pids) => {
                let process = |id: &u32| proc.process_of(*id).unwrap_or(*id);
                let mut pids = unique(&pids.iter().map(process).collect::<Vec<_>>());
                pids.retain(|pid| !exclude_self || *pid != me);
                Some(ThreadSelection::Processes(pids))
            }
            Target::Threads(tids) => Some(ThreadSelection::Threads(unique(tids))),
            Target::User(uid) => Some(ThreadSelection::User {
                uid: *uid,
                except: me,
            }),
            Target::Command | Target::System | Target::Cgroups(_) => None,
        }
    }

    /// Returns true if the user named each process or thread by id, so that a refused one is an
    /// error.
    pub fn is_by_id(&self) -> bool {
        !matches!(self, ThreadSelection::User { .. })
    }

    /// Describes the selection for a message: `threads 7, 8`.
    pub fn describe(&self) -> String {
        let list = |one: &str, many: &str, ids: &[u32]| match ids {
            [id] => format!("{one} {id}"),
            ids => {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                format!("{many} {}", ids.join(", "))
            }
        };
        match self {
            ThreadSelection::Processes(pids) => list("process", "processes", pids),
            ThreadSelection::Threads(tids) => list("thread", "threads", tids),
            ThreadSelection::User { uid, .. } => format!("user {uid}"),
        }
    }

    /// Returns the current threads, by process and id.
    pub fn threads(&self) -> Vec<TargetThread> {
        self.threads_in(&Procfs::default())
    }

    fn threads_in(&self, proc: &Procfs) -> Vec<TargetThread> {
        let threads_of = |pid: u32| {
            let tids = proc.thread_ids(pid).into_iter();
            tids.map(move |tid| TargetThread { pid, tid })
        };
        let mut found: Vec<TargetThread> = match self {
            ThreadSelection::Processes(pids) => pids.iter().copied().flat_map(threads_of).collect(),
            ThreadSelection::Threads(tids) => {
                let thread = |tid: &u32| {
                    let pid = proc.process_of(*tid)?;
                    Some(TargetThread { pid, tid: *tid })
                };
                tids.iter().filter_map(thread).collect()
            }
            ThreadSelection::User { uid, except } => {
                let is_theirs = |pid: &u32| {
                    let user = || proc.status(*pid)?.effective_user;
                    pid != except && user() == Some(*uid)
                };
                let pids = proc.process_ids().into_iter().filter(is_theirs);
                pids.flat_map(threads_of).collect()
            }
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_number_and_thread() {
        let me = std::process::id();
        let own = TargetThread { pid: me, tid: me };
        let processes = ThreadSelection::Processes(vec![me, me]);
        let found = processes.threads();
        assert_eq!(found.iter().filter(|thread| **thread == own).count(), 1);
        assert!(found.iter().all(|thread| thread.pid == me));
        let mine = std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            (tid, ThreadSelection::Threads(vec![tid, u32::MAX]).threads())
        });
        let (tid, found) = mine.join().unwrap();
        assert_eq!(found, [TargetThread { pid: me, tid }]);
    }

    #[test]
    fn id_of_a_thread_in_a_list_of_processes_selects_its_process() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (told, tid) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_pid() as u32)
                .unwrap();
            stopped.recv().ok();
        });
        let tid = tid.recv().unwrap();
        let me = std::process::id();
        let target = Target::Processes(vec![me, tid, u32::MAX]);
        let with = ThreadSelection::from_target(&target, false).unwrap();
        let without = ThreadSelection::from_target(&target, true).unwrap();
        drop(stop);
        thread.join().unwrap();
        assert!(matches!(with, ThreadSelection::Processes(pids) if pids == [me, u32::MAX]));
        assert!(matches!(without, ThreadSelection::Processes(pids) if pids == [u32::MAX]));
    }

    #[test]
    fn a_user_has_processes_but_not_this_one() {
        let me = std::process::id();
        let uid = rustix::process::geteuid().as_raw();
        let with = ThreadSelection::User { uid, except: 0 }.threads();
        let without = ThreadSelection::User { uid, except: me }.threads();
        assert!(with.iter().any(|thread| thread.pid == me));
        assert!(without.iter().all(|thread| thread.pid != me));
    }

    #[test]
    fn a_process_that_has_ended_has_no_threads() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Procfs::new(folder.path());
        for selection in [
            ThreadSelection::Processes(vec![1]),
            ThreadSelection::Threads(vec![1]),
            ThreadSelection::User { uid: 0, except: 0 },
        ] {
            assert!(selection.threads_in(&proc).is_empty());
        }
    }

    #[test]
    fn targets_are_described() {
        let of = |target| {
            ThreadSelection::from_target(&target, false)
                .unwrap()
                .describe()
        };
        assert_eq!(
            of(Target::Processes(vec![4_000_000_000])),
            "process 4000000000"
        );
        assert_eq!(of(Target::Threads(vec![7, 8, 7])), "threads 7, 8");
        assert_eq!(of(Target::User(1000)), "user 1000");
        assert!(ThreadSelection::from_target(&Target::System, false).is_none());
    }
}
