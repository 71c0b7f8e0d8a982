//! [`DelayWatcher`]: for how long what is recorded could run and had no CPU, beside what it used.
//!
//! A thread that is off its CPU sleeps or waits for one. The scheduler counts the second (`schedstat`, see
//! [`run_delay`](crate::run_delay)), for each thread, and nobody has the sum once a thread has ended. So threads are looked at
//! while they run. What ends between two looks is taken to have waited as the others did, for its CPU time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::procfs::{Mount, Procfs};
use crate::target::TargetThread;

/// Time to the second look, and the longest from one to the next.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Least pause between two looks, as a multiple of the time that a look takes: many threads take milliseconds. At most so long:
/// a look may itself have waited for a CPU.
const LEAST_PAUSE: (u32, Duration) = (100, Duration::from_secs(2));

/// Most threads that are looked at, at some 10 us each.
const MOST: usize = 512;

/// Share of the CPU time from which on the threads that were seen stand for all.
const ENOUGH_SEEN: f64 = 0.1;

/// Most control groups above each other, and most groups of processes that are looked at.
const MOST_LEVELS: usize = 16;
const MOST_GROUPS: usize = 64;

/// Most processes whose control groups are looked for at a time.
const MOST_IN_GROUPS: usize = 16;

/// Time off the CPU of what was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Time for which threads could run and had no CPU, all of them together.
    pub waiting: Duration,
    /// Part of it for which a control group had used up its quota of CPU time, of the one for which that was longest.
    pub throttled: Duration,
}

/// What is watched.
#[derive(Clone, Debug)]
pub enum Delayed {
    /// A process that has just been started, and all that it starts.
    Command(u32),
    /// Processes, and what they start from now on.
    Processes(Vec<u32>),
    /// These threads alone.
    Threads(Vec<TargetThread>),
}

/// CPU time of threads, and the time for which they waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    cpu: Duration,
    waiting: Duration,
}

#[derive(Debug)]
struct Delays {
    proc: Procfs,
    watched: Delayed,
    /// Processes that there were before, of which no child is watched.
    before: HashSet<u32>,
    /// By thread: what it had when it was first seen, and last.
    threads: HashMap<u32, (Times, Times)>,
    /// Of threads that have ended, or were not seen again.
    ended: Times,
    looks: u32,
    /// True once there were too many threads to look at all of them.
    left_out: bool,
    /// True once nobody looks any more.
    is_stopped: bool,
    /// Of all that runs on this machine, in the beginning.
    machine: Option<Times>,
    mounts: Vec<Mount>,
    /// Control groups that processes were seen in, as /proc describes them.
    groups: HashSet<String>,
    /// Files that tell of throttling, each with what it said first and last: a group may be removed before the end.
    throttled: Vec<(PathBuf, Duration, Duration)>,
}

/// Watches, from when it is made, for how long threads wait for a CPU.
#[derive(Debug)]
pub struct DelayWatcher {
    delays: Arc<Mutex<Delays>>,
    /// Ends the thread when it is dropped.
    _stop: Option<Sender<()>>,
}

impl DelayWatcher {
    /// Begins to watch.
    pub fn begin(watched: Delayed) -> DelayWatcher {
        let mut delays = Delays::new(Procfs::default(), watched);
        delays.look();
        let delays = Arc::new(Mutex::new(delays));
        DelayWatcher {
            _stop: keep_looking(&delays),
            delays,
        }
    }

    /// Looks for the last time: what happens from now on does not count.
    pub fn stop(&self) {
        let mut delays = lock(&self.delays);
        delays.look();
        delays.is_stopped = true;
    }

    /// Returns the time so far, of what `used` so much CPU time since the beginning; `None` where the kernel does not count
    /// it. `whole` is what the first process of a command that has ended waited in all.
    pub fn so_far(&self, used: Duration, whole: Option<Duration>) -> Option<Delay> {
        let mut delays = lock(&self.delays);
        delays.look();
        if let (Delayed::Command(pid), Some(whole)) = (&delays.watched, whole) {
            let pid = *pid;
            if let Some((_, last)) = delays.threads.get_mut(&pid) {
                last.waiting = last.waiting.max(whole);
            }
        }
        delays.estimate(used)
    }
}

fn lock(delays: &Mutex<Delays>) -> MutexGuard<'_, Delays> {
    delays.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks again and again, on a thread that ends when the sender is dropped; `None` where there can be no thread.
fn keep_looking(delays: &Arc<Mutex<Delays>>) -> Option<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let delays = Arc::downgrade(delays);
    let look = move || {
        let (mut interval, longest) = INTERVALS;
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let Some(delays) = delays.upgrade() else {
                return;
            };
            let began = Instant::now();
            lock(&delays).look();
            interval = (interval * 2)
                .min(longest)
                .max((began.elapsed() * LEAST_PAUSE.0).min(LEAST_PAUSE.1));
        }
    };
    let thread = std::thread::Builder::new().name("rprof-delays".into());
    thread.spawn(look).ok().map(|_| stop)
}

impl Delays {
    fn new(proc: Procfs, watched: Delayed) -> Delays {
        let before = match &watched {
            Delayed::Processes(_) => proc.process_ids().into_iter().collect(),
            Delayed::Command(_) | Delayed::Threads(_) => HashSet::new(),
        };
        Delays {
            machine: proc.scheduled_and_waited().map(Times::of),
            proc,
            watched,
            before,
            threads: HashMap::new(),
            ended: Times::default(),
            looks: 0,
            left_out: false,
            is_stopped: false,
            mounts: Mount::all(),
            groups: HashSet::new(),
            throttled: Vec::new(),
        }
    }

    /// Begins to watch the control groups of a process.
    fn look_at_groups(&mut self, pid: u32) {
        let text = fs::read_to_string(self.proc.folder(pid).join("cgroup")).unwrap_or_default();
        if self.groups.contains(&text) || self.groups.len() >= MOST_GROUPS {
            return;
        }
        for path in throttle_files(&text, &self.mounts) {
            let is_known = self.throttled.iter().any(|(known, ..)| *known == path);
            if let (false, Some(time)) = (is_known, throttled(&path)) {
                self.throttled.push((path, time, time));
            }
        }
        self.groups.insert(text);
    }

    /// Reads again for how long each control group was throttled, where it still is there.
    fn read_throttled(&mut self) {
        for (path, _, last) in &mut self.throttled {
            *last = throttled(path).unwrap_or(*last);
        }
    }

    /// Looks at all threads that are watched by now.
    fn look(&mut self) {
        if self.is_stopped {
            return;
        }
        let follows = !matches!(self.watched, Delayed::Threads(_));
        let mut threads: Vec<TargetThread> = Vec::new();
        let mut pids: Vec<u32> = match &self.watched {
            Delayed::Command(pid) => vec![*pid],
            Delayed::Processes(pids) => pids.clone(),
            Delayed::Threads(given) => {
                threads.extend(given.iter().take(MOST));
                Vec::new()
            }
        };
        let mut at = 0;
        while let Some(pid) = pids.get(at).copied().filter(|_| threads.len() < MOST) {
            let tids = self.proc.thread_ids(pid);
            let room = MOST - threads.len();
            self.left_out |= tids.len() > room;
            for tid in tids.into_iter().take(room) {
                threads.push(TargetThread { pid, tid });
                if follows {
                    let children = self.proc.children(pid, tid).into_iter();
                    pids.extend(children.filter(|child| !self.before.contains(child)));
                }
            }
            at += 1;
        }
        self.left_out |= at < pids.len();
        let mut in_groups: Vec<u32> = threads.iter().map(|thread| thread.pid).collect();
        in_groups.dedup();
        for pid in in_groups.into_iter().take(MOST_IN_GROUPS) {
            self.look_at_groups(pid);
        }
        self.read_throttled();
        self.forget_all_but(&threads);
        for thread in threads {
            let Some(now) = (self.proc.thread_times(thread.pid, thread.tid)).map(Times::of) else {
                continue;
            };
            // What there was before counts from now on; what was born since, from its birth.
            let born = match self.looks == 0 || self.left_out {
                true => now,
                false => Times::default(),
            };
            let (first, last) = self.threads.entry(thread.tid).or_insert((born, born));
            if now.cpu < last.cpu || now.waiting < last.waiting {
                // Another thread of this number.
                self.ended = self.ended.plus(last.since(*first));
                *first = Times::default();
            }
            *last = now;
        }
        self.looks = self.looks.saturating_add(1);
    }

    /// Sums up the threads that were not seen this time and are gone: lists of children may miss one. The first of a command stays:
    /// its times may come later.
    fn forget_all_but(&mut self, seen: &[TargetThread]) {
        let seen: HashSet<u32> = seen.iter().map(|thread| thread.tid).collect();
        let first = match self.watched {
            Delayed::Command(pid) => Some(pid),
            _ => None,
        };
        let (ended, proc) = (&mut self.ended, &self.proc);
        self.threads.retain(|tid, (first_times, last)| {
            let is_there = || proc.thread_times(*tid, *tid).is_some();
            let stays = seen.contains(tid) || Some(*tid) == first || is_there();
            if !stays {
                *ended = ended.plus(last.since(*first_times));
            }
            stays
        });
    }

    fn estimate(&self, used: Duration) -> Option<Delay> {
        let seen = (self.threads.values()).fold(self.ended, |sum, (first, last)| {
            sum.plus(last.since(*first))
        });
        let unseen = used.saturating_sub(seen.cpu);
        let is_enough = seen.cpu.as_secs_f64() >= ENOUGH_SEEN * used.as_secs_f64();
        // Where hardly anything was seen, threads are taken to have waited as all on this machine did.
        let others = match is_enough {
            true => Some(seen),
            false => {
                let now = self.proc.scheduled_and_waited().map(Times::of);
                now.zip(self.machine).map(|(now, begin)| now.since(begin))
            }
        };
        let saw_none = self.threads.is_empty() && self.ended == Times::default();
        if saw_none && others.is_none() {
            return None;
        }
        let others = others.unwrap_or_default();
        let ratio = others.waiting.as_secs_f64() / others.cpu.as_secs_f64();
        let guessed = Duration::try_from_secs_f64(unseen.as_secs_f64() * ratio);
        let throttled = (self.throttled.iter()).map(|(_, first, last)| last.saturating_sub(*first));
        let waiting = seen.waiting + guessed.unwrap_or_default();
        Some(Delay {
            waiting,
            // The kernel adds up CPUs, and others of the group.
            throttled: throttled.max().unwrap_or_default().min(waiting),
        })
    }
}

impl Times {
    fn of((cpu, waiting): (Duration, Duration)) -> Times {
        Times { cpu, waiting }
    }

    fn plus(self, other: Times) -> Times {
        Times {
            cpu: self.cpu + other.cpu,
            waiting: self.waiting + other.waiting,
        }
    }

    fn since(self, before: Times) -> Times {
        Times {
            cpu: self.cpu.saturating_sub(before.cpu),
            waiting: self.waiting.saturating_sub(before.waiting),
        }
    }
}

/// Returns the `cpu.stat` of the control groups that a process is in, as proc_pid_cgroup(5) lists them, from its own up, where CPU time is
/// limited by groups.
fn throttle_files(groups: &str, mounts: &[Mount]) -> Vec<PathBuf> {
    let has_cpu = |list: &str| list.split(',').any(|controller| controller == "cpu");
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_it = |mount: &&Mount| match controllers {
            "" => mount.kind == "cgroup2",
            list => {
                has_cpu(list)
                    && mount.kind == "cgroup"
                    && mount.options.iter().any(|option| option == "cpu")
            }
        };
        let Some(mount) = mounts.iter().find(is_it) else {
            continue;
        };
        let group = mount.path.join(path.trim_start_matches('/'));
        let groups = group
            .ancestors()
            .take_while(|group| group.starts_with(&mount.path));
        files.extend(groups.take(MOST_LEVELS).map(|group| group.join("cpu.stat")));
    }
    files
}

/// Reads for how long a control group was throttled: `throttled_usec` of version 2, `throttled_time` in nanoseconds of version 1.
fn throttled(path: &Path) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", time) => time.parse().ok().map(Duration::from_micros),
        ("throttled_time", time) => time.parse().ok().map(Duration::from_nanos),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            Machine(tempfile::tempdir().unwrap())
        }

        /// Writes CPU time and time of waiting of a thread, in ms.
        fn thread(&self, pid: u32, tid: u32, cpu: u64, waiting: u64) {
            let folder = self.0.path().join(format!("{pid}/task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            let text = format!("{} {} 7\n", cpu * 1_000_000, waiting * 1_000_000);
            fs::write(folder.join("schedstat"), text).unwrap();
        }

        fn children(&self, pid: u32, list: &str) {
            let folder = self.0.path().join(format!("{pid}/task/{pid}"));
            fs::write(folder.join("children"), list).unwrap();
        }

        fn schedstat(&self, cpu: u64, waiting: u64) {
            let text = format!(
                "version 17\ncpu0 0 0 0 0 0 0 {} {} 9\ndomain0 MC 3 1 2\ncpu1 0 0 0 0 0 0 0 0 1\n",
                cpu * 1_000_000,
                waiting * 1_000_000
            );
            fs::write(self.0.path().join("schedstat"), text).unwrap();
        }

        fn watch(&self, watched: Delayed) -> Delays {
            let mut delays = Delays::new(Procfs::new(self.0.path()), watched);
            delays.look();
            delays
        }
    }

    fn waiting(delays: &Delays, used: u64) -> Option<Duration> {
        delays.estimate(MS * used as u32).map(|delay| delay.waiting)
    }

    #[test]
    fn threads_and_children_of_a_command_are_added_up() {
        let machine = Machine::new();
        machine.thread(10, 10, 1, 2);
        machine.children(10, "");
        let mut delays = machine.watch(Delayed::Command(10));
        machine.thread(10, 10, 101, 52);
        machine.thread(10, 11, 100, 30);
        machine.thread(12, 12, 200, 20);
        machine.children(10, "12 ");
        delays.look();
        assert_eq!(waiting(&delays, 400), Some(MS * 100));
        // Another thread has the number by now; what was seen of the one before counts.
        machine.thread(12, 12, 10, 5);
        delays.look();
        assert_eq!(waiting(&delays, 410), Some(MS * 105));
        // Threads that nobody saw have waited as the others did: for a quarter of their CPU time.
        assert_eq!(waiting(&delays, 2 * 410), Some(MS * 210));
    }

    #[test]
    fn children_that_there_were_before_are_not_followed() {
        let machine = Machine::new();
        for pid in [20, 21] {
            machine.thread(pid, pid, 50, 50);
        }
        machine.children(20, "21 ");
        let mut delays = machine.watch(Delayed::Processes(vec![20]));
        machine.thread(20, 20, 60, 90);
        machine.thread(21, 21, 90, 990);
        delays.look();
        assert_eq!(waiting(&delays, 10), Some(MS * 40));
        let one = vec![TargetThread { pid: 21, tid: 21 }];
        let mut delays = machine.watch(Delayed::Threads(one));
        machine.thread(21, 21, 91, 991);
        delays.look();
        assert_eq!(waiting(&delays, 1), Some(MS));
    }

    #[test]
    fn where_hardly_anything_was_seen_the_machine_stands_for_it() {
        let machine = Machine::new();
        let nothing = machine.watch(Delayed::Command(30));
        assert_eq!(waiting(&nothing, 100), None);
        machine.schedstat(1000, 1000);
        machine.thread(30, 30, 0, 0);
        machine.children(30, "");
        let delays = machine.watch(Delayed::Command(30));
        machine.schedstat(3000, 4000);
        assert_eq!(waiting(&delays, 100), Some(MS * 150));
    }

    #[test]
    fn a_thread_that_there_was_no_room_for_counts_from_when_it_is_seen() {
        let machine = Machine::new();
        for tid in 0..MOST as u32 {
            machine.thread(40, 40 + tid, 1, 1);
        }
        machine.thread(9000, 9000, 500, 500);
        let mut delays = machine.watch(Delayed::Processes(vec![40, 9000]));
        assert_eq!(delays.threads.len(), MOST);
        fs::remove_dir_all(machine.0.path().join("40")).unwrap();
        delays.look();
        machine.thread(9000, 9000, 501, 503);
        delays.look();
        assert_eq!(delays.threads.len(), 1);
        assert_eq!(waiting(&delays, 1), Some(MS * 3));
    }

    #[test]
    fn throttling_is_that_of_a_group_or_one_above_it() {
        let machine = Machine::new();
        let mount = machine.0.path().join("cg");
        let inner = mount.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let stat = |folder: &Path, time: u32| {
            let text = format!("usage_usec 1\nnr_throttled 3\nthrottled_usec {time}\n");
            fs::write(folder.join("cpu.stat"), text).unwrap();
        };
        stat(&inner, 10);
        stat(&mount.join("a"), 2000);
        let mounts = Mount::parse_all(&format!(
            "1 0 0:1 / {} rw - cgroup2 none rw\n",
            mount.display()
        ));
        let files = throttle_files("1:cpuset:/x\n0::/a/b\n", &mounts);
        let below = |path: &Path| path.strip_prefix(&mount).unwrap().to_owned();
        let found: Vec<_> = files.iter().map(|file| below(file)).collect();
        let expected = ["a/b/cpu.stat", "a/cpu.stat", "cpu.stat"];
        assert_eq!(found, expected.map(PathBuf::from));
        let times: Vec<_> = files.iter().map(|file| throttled(file)).collect();
        assert_eq!(times, [Some(MS / 100), Some(MS * 2), None]);
    }
}
