//! CPU time of processes, from the kernel's accounting.
//!
//! | subject | source |
//! |---|---|
//! | process with all threads, even exited | its CPU clock (clock_getcpuclockid(3)), in ns |
//! | reaped children and their children | `cutime`, `cstime` (proc_pid_stat(5)), in clock ticks |
//! | single thread | `schedstat` |
//! | exited command | wait4(2): [`Child::usage`](crate::Child::usage) |
//! | whole CPUs | [`Procfs::busy_time`] |

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::procfs::Procfs;
use crate::target::{TargetThread, ThreadSelection};

/// CPU time between the last reading and the exit is lost.
const INTERVAL: Duration = Duration::from_millis(200);

/// Larger sets of targets are read only at the start and the end.
const MAX_LOOKED_AT: usize = 16;

/// Returns the CPU time of a process without its children; `None` if it has exited.
pub fn process_cpu_time(pid: u32) -> Option<Duration> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock = 0;
    // SAFETY: the call writes an integer to the pointer's target, and does not store the pointer.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call writes a timespec to the pointer's target if it succeeds.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded.
    let time = unsafe { time.assume_init() };
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

/// Returns the CPU time of a process and its reaped children; `None` if it has exited.
pub fn family_cpu_time(pid: u32) -> Option<Duration> {
    let children = Procfs::default().stat(pid)?.waited_for;
    Some(process_cpu_time(pid)? + children)
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    own: Duration,
    children: Duration,
}

#[derive(Debug)]
struct TargetAccount {
    target: TargetThread,
    first: Account,
    last: Account,
    /// False once a child from before the start has exited: its earlier CPU time would count.
    counts_children: bool,
}

#[derive(Debug)]
struct Accounts {
    proc: Procfs,
    by_thread: bool,
    targets: Vec<TargetAccount>,
    /// Parents of the processes that existed at the start.
    before: HashMap<u32, u32>,
}

impl Accounts {
    fn read(&self, target: TargetThread) -> Option<Account> {
        match self.by_thread {
            true => Some(Account {
                own: self.proc.thread_cpu_time(target.pid, target.tid)?,
                children: Duration::ZERO,
            }),
            false => Some(Account {
                own: process_cpu_time(target.pid)?,
                children: self.proc.stat(target.pid)?.waited_for,
            }),
        }
    }

    fn look(&mut self) {
        for index in 0..self.targets.len() {
            if let Some(account) = self.read(self.targets[index].target) {
                self.targets[index].last = account;
            }
        }
        let proc = &self.proc;
        let mut ended = self.before.iter().filter(|(pid, _)| !proc.exists(**pid));
        // A grandchild's time reaches the process only through its exited parent.
        let parents: Vec<u32> = ended.by_ref().map(|(_, parent)| *parent).collect();
        for account in &mut self.targets {
            account.counts_children &= !parents.contains(&account.target.pid);
        }
    }

    /// Returns the CPU time since the first reading, with children started since.
    fn used(&self, follows_children: bool) -> Duration {
        let mut used = Duration::ZERO;
        for account in &self.targets {
            used += account.last.own.saturating_sub(account.first.own);
            if follows_children && account.counts_children {
                used += account.last.children.saturating_sub(account.first.children);
            }
        }
        if follows_children && !self.by_thread {
            used += self.used_by_descendants();
        }
        used
    }

    /// Returns the CPU time of running processes started since.
    fn used_by_descendants(&self) -> Duration {
        let parents = parents(&self.proc);
        let is_born = |pid: &u32| {
            let mut pid = *pid;
            // Limits the depth: parents may change during the reading.
            for _ in 0..parents.len() {
                if self.before.contains_key(&pid) {
                    return false;
                }
                let Some(parent) = parents.get(&pid) else {
                    return false;
                };
                if self
                    .targets
                    .iter()
                    .any(|account| account.target.pid == *parent)
                {
                    return true;
                }
                pid = *parent;
            }
            false
        };
        let born = parents.keys().filter(|pid| is_born(pid));
        born.filter_map(|pid| family_cpu_time(*pid)).sum()
    }
}

fn parents(proc: &Procfs) -> HashMap<u32, u32> {
    let pids = proc.process_ids().into_iter();
    pids.filter_map(|pid| Some((pid, proc.stat(pid)?.parent)))
        .collect()
}

/// Measures the CPU time of attached targets since its creation.
#[derive(Debug)]
pub struct CpuTimeWatcher {
    accounts: Arc<Mutex<Accounts>>,
    _stop: Option<Sender<()>>,
}

impl CpuTimeWatcher {
    /// Starts measuring the processes of these threads, or only the threads if `selection` names
    /// threads.
    pub fn new(selection: &ThreadSelection, attached: &[TargetThread]) -> CpuTimeWatcher {
        let by_thread = matches!(selection, ThreadSelection::Threads(_));
        let mut targets: Vec<TargetThread> = attached.to_vec();
        if !by_thread {
            targets.sort_unstable_by_key(|thread| thread.pid);
            targets.dedup_by_key(|thread| thread.pid);
        }
        let proc = Procfs::default();
        let before = match by_thread {
            true => HashMap::new(),
            false => parents(&proc),
        };
        let mut accounts = Accounts {
            proc,
            by_thread,
            targets: Vec::new(),
            before,
        };
        for target in targets {
            if let Some(account) = accounts.read(target) {
                accounts.targets.push(TargetAccount {
                    target,
                    first: account,
                    last: account,
                    counts_children: true,
                });
            }
        }
        let is_few = accounts.targets.len() <= MAX_LOOKED_AT;
        let pids: Vec<u32> = accounts
            .targets
            .iter()
            .map(|account| account.target.pid)
            .collect();
        (accounts.before).retain(|pid, parent| pids.contains(parent) || pids.contains(pid));
        let accounts = Arc::new(Mutex::new(accounts));
        CpuTimeWatcher {
            _stop: is_few.then(|| keep_looking(&accounts)).flatten(),
            accounts,
        }
    }

    /// Returns the CPU time since the creation. With `follows_children`, includes children started
    /// since. A lower bound if targets have exited.
    pub fn used(&self, follows_children: bool) -> Duration {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.look();
        accounts.used(follows_children)
    }
}

/// Starts periodic readings, which end when the sender is dropped. `None` if the thread cannot
/// start.
fn keep_looking(accounts: &Arc<Mutex<Accounts>>) -> Option<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let accounts = Arc::downgrade(accounts);
    let thread = std::thread::Builder::new().name("rprof-accounts".into());
    let look = move || {
        while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let Some(accounts) = accounts.upgrade() else {
                return;
            };
            accounts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .look();
        }
    };
    thread.spawn(look).ok().map(|_| stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    fn shell(script: &str) -> Child {
        let mut child = (Command::new("sh").arg("-c"))
            .arg(format!("read x; {script}; echo done; read x"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(child.id() > 0 && child.stdin.as_mut().is_some());
        child
    }

    fn work(child: &mut Child) {
        use std::io::Write;
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    const LOOP: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

    fn watcher(pid: u32) -> CpuTimeWatcher {
        let selection = ThreadSelection::Processes(vec![pid]);
        CpuTimeWatcher::new(&selection, &selection.threads())
    }

    #[test]
    fn cpu_time_of_a_process_is_counted_from_the_first_look() {
        let mut child = shell(LOOP);
        work(&mut child);
        let before = process_cpu_time(child.id()).unwrap();
        assert!(before > Duration::from_millis(1), "{before:?}");
        let watcher = watcher(child.id());
        assert!(watcher.used(true) < before);
        end(child);
        assert!(process_cpu_time(u32::MAX).is_none() && process_cpu_time(0).is_none());
    }

    #[test]
    fn children_count_once_they_are_waited_for_and_while_they_run() {
        let mut child = shell(&format!(
            "({LOOP}); ({LOOP}; echo made; exec sleep 100) & sleeper=$!; read y; kill $sleeper"
        ));
        let watcher = watcher(child.id());
        let pid = child.id();
        {
            use std::io::Write;
            child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert_eq!(line, "made\n");
        }
        let own = process_cpu_time(pid).unwrap();
        let (with, without) = (watcher.used(true), watcher.used(false));
        assert!(without <= own, "{without:?} of {own:?}");
        assert!(
            with > without + Duration::from_millis(20),
            "{with:?} {without:?}"
        );
        end(child);
    }
}
