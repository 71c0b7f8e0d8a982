//! [`DelayWatcher`]: time that targets waited for a CPU, or were stopped.
//!
//! A thread off its CPU either sleeps or waits for a CPU. The scheduler counts the waiting time for
//! each thread (see [`run_delay`](crate::run_delay)), but keeps no sum after its exit. So threads
//! are read periodically. Threads that exit between two readings are assumed to have waited like
//! the others, in proportion to their CPU time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::procfs::{Mount, Procfs};
use crate::target::TargetThread;

/// Time to the second reading, and maximum time between readings.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Minimum pause, as a multiple of a reading's duration, because many threads take milliseconds. It
/// has a maximum, because a reading may itself wait for a CPU.
const MIN_PAUSE: (u32, Duration) = (100, Duration::from_secs(2));

/// Threads read, at about 10 us each.
const LIMIT: usize = 512;

/// Minimum share of the CPU time in the read threads to extrapolate from them to all threads.
const ENOUGH_SEEN: f64 = 0.1;

/// Depth of nested control groups, and number of distinct `cgroup` files read.
const MAX_LEVELS: usize = 16;
const MAX_GROUPS: usize = 64;

/// Maximum number of processes to read control groups for at a time.
const MAX_IN_GROUPS: usize = 16;

/// Time that targets waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Wall time that a thread was runnable without a CPU and none ran, at most.
    pub waiting: Duration,
    /// Time that threads were runnable without a CPU, summed over threads.
    pub sum: Duration,
    /// Part of `waiting` that may be sleep: threads that waited at the same time as others waited or ran.
    pub unclear: Duration,
    /// Part of `waiting` while a control group had exhausted its CPU quota: the maximum over groups.
    pub throttled: Duration,
    /// Wall time that a signal, a debugger or the cgroup freezer had stopped a process.
    pub stopped: Duration,
}

/// Targets of a [`DelayWatcher`].
#[derive(Clone, Debug)]
pub enum Delayed {
    /// New process and all its descendants.
    Command(u32),
    /// Processes and the children that they start from now on.
    Processes(Vec<u32>),
    /// Single threads, without children.
    Threads(Vec<TargetThread>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    cpu: Duration,
    waiting: Duration,
}

#[derive(Debug)]
struct Delays {
    proc: Procfs,
    watched: Delayed,
    before: HashSet<u32>,
    /// First and last reading.
    threads: HashMap<u32, (Times, Times)>,
    ended: Times,
    /// Upper and lower bound of the wall time that a thread waited for a CPU and none ran.
    stalled: (Duration, Duration),
    /// Waiting time of all threads in these bounds.
    looked: Duration,
    last_look: Option<Instant>,
    looks: u32,
    /// True once there were too many threads to read all.
    left_out: bool,
    is_stopped: bool,
    machine: Option<Times>,
    mounts: Vec<Mount>,
    groups: HashSet<String>,
    /// First and last reading of throttled times. A group may be removed before the end.
    throttled: Vec<(PathBuf, Duration, Duration)>,
    stops: Stops,
}

/// Time that a process was stopped. A change between two readings counts from their middle.
#[derive(Debug, Default)]
struct Stops {
    last: Option<(Instant, bool)>,
    sum: Duration,
}

impl Stops {
    fn add(&mut self, now: Instant, is_stopped: bool) {
        if let Some((before, was_stopped)) = self.last {
            let time = now.saturating_duration_since(before);
            match (was_stopped, is_stopped) {
                (true, true) => self.sum += time,
                (false, false) => {}
                _ => self.sum += time / 2,
            }
        }
        self.last = Some((now, is_stopped));
    }
}

/// Measures how long threads wait for a CPU, since its creation.
#[derive(Debug)]
pub struct DelayWatcher {
    delays: Arc<Mutex<Delays>>,
    _stop: Option<Sender<()>>,
}

impl DelayWatcher {
    /// Starts measuring.
    pub fn begin(watched: Delayed) -> DelayWatcher {
        let mut delays = Delays::new(Procfs::default(), watched);
        delays.look();
        let delays = Arc::new(Mutex::new(delays));
        DelayWatcher {
            _stop: keep_looking(&delays),
            delays,
        }
    }

    /// Takes the last reading. Later times do not count.
    pub fn stop(&self) {
        let mut delays = lock(&self.delays);
        delays.look();
        delays.is_stopped = true;
    }

    /// Returns the time for targets that `used` this CPU time; `None` without statistics. `whole` is
    /// the running and waiting time of an exited command's first thread.
    pub fn so_far(&self, used: Duration, whole: Option<(Duration, Duration)>) -> Option<Delay> {
        let mut delays = lock(&self.delays);
        delays.look();
        delays.complete_first(whole);
        delays.estimate(used)
    }
}

fn lock(delays: &Mutex<Delays>) -> MutexGuard<'_, Delays> {
    delays.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts periodic readings, which end when the sender is dropped. `None` if the thread cannot
/// start.
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
                .max((began.elapsed() * MIN_PAUSE.0).min(MIN_PAUSE.1));
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
            stalled: (Duration::ZERO, Duration::ZERO),
            looked: Duration::ZERO,
            last_look: None,
            looks: 0,
            left_out: false,
            is_stopped: false,
            mounts: Mount::all(),
            groups: HashSet::new(),
            throttled: Vec::new(),
            stops: Stops::default(),
        }
    }

    fn look_at_groups(&mut self, pid: u32) {
        let text = fs::read_to_string(self.proc.folder(pid).join("cgroup")).unwrap_or_default();
        if self.groups.contains(&text) || self.groups.len() >= MAX_GROUPS {
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
                threads.extend(given.iter().take(LIMIT));
                Vec::new()
            }
        };
        let mut at = 0;
        while let Some(pid) = pids.get(at).copied().filter(|_| threads.len() < LIMIT) {
            let tids = self.proc.thread_ids(pid);
            let room = LIMIT - threads.len();
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
        let mut processes: Vec<u32> = threads.iter().map(|thread| thread.pid).collect();
        processes.dedup();
        let is_stopped = |pid: &u32| {
            (self.proc.stat(*pid)).is_some_and(|process| process.is_stopped)
                || self.proc.is_frozen(*pid)
        };
        self.stops
            .add(Instant::now(), processes.iter().any(is_stopped));
        for pid in processes.into_iter().take(MAX_IN_GROUPS) {
            self.look_at_groups(pid);
        }
        for (path, _, last) in &mut self.throttled {
            *last = throttled(path).unwrap_or(*last);
        }
        self.forget_all_but(&threads);
        let mut meanwhile = Vec::new();
        for thread in threads {
            let Some(now) = (self.proc.thread_times(thread.pid, thread.tid)).map(Times::of) else {
                continue;
            };
            // Earlier threads count from now on, new ones from their start.
            let born = match self.looks == 0 || self.left_out {
                true => now,
                false => Times::default(),
            };
            let (first, last) = self.threads.entry(thread.tid).or_insert((born, born));
            if now.cpu < last.cpu || now.waiting < last.waiting {
                // The id was reused.
                self.ended = self.ended.plus(last.since(*first));
                *first = Times::default();
                *last = Times::default();
            }
            meanwhile.push(now.since(*last));
            *last = now;
        }
        let now = Instant::now();
        if let Some(before) = self.last_look.replace(now) {
            let (most, least) = stalled(&meanwhile, now.saturating_duration_since(before));
            self.stalled.0 += most;
            self.stalled.1 += least;
            self.looked += meanwhile.iter().map(|one| one.waiting).sum::<Duration>();
        }
        self.looks = self.looks.saturating_add(1);
    }

    /// Adds up threads that are neither in `seen` nor running: lists of children may be incomplete. Keeps
    /// the first thread of a command, whose times may come later.
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

    fn complete_first(&mut self, whole: Option<(Duration, Duration)>) {
        if let (Delayed::Command(pid), Some((cpu, waiting))) = (&self.watched, whole)
            && let Some((_, last)) = self.threads.get_mut(pid)
        {
            (last.cpu, last.waiting) = (last.cpu.max(cpu), last.waiting.max(waiting));
        }
    }

    fn estimate(&self, used: Duration) -> Option<Delay> {
        let seen = (self.threads.values()).fold(self.ended, |sum, (first, last)| {
            sum.plus(last.since(*first))
        });
        let unseen = used.saturating_sub(seen.cpu);
        let is_enough = seen.cpu.as_secs_f64() >= ENOUGH_SEEN * used.as_secs_f64();
        // Otherwise, threads are assumed to have waited like the machine's average.
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
        let ratio = others.waiting.div_duration_f64(others.cpu);
        let guessed = Duration::try_from_secs_f64(unseen.as_secs_f64() * ratio);
        let throttled = (self.throttled.iter()).map(|(_, first, last)| last.saturating_sub(*first));
        let waiting = seen.waiting + guessed.unwrap_or_default();
        let (most, least) = match self.threads.len() == 1 && self.ended == Times::default() {
            true => (waiting, waiting),
            false => (
                self.stalled.0 + waiting.saturating_sub(self.looked),
                (self.stalled.1).saturating_sub(used.saturating_sub(seen.cpu)),
            ),
        };
        let (most, sum) = (most.min(waiting), waiting);
        Some(Delay {
            waiting: most,
            sum,
            // Also the part that was not read.
            unclear: most.saturating_sub(least),
            // The kernel's value is a sum over CPUs, and includes the group's other processes.
            throttled: throttled.max().unwrap_or_default().min(waiting),
            stopped: self.stops.sum,
        })
    }
}

/// Returns the longest and shortest time that a thread waited and none ran, within this time, from
/// the times of all threads.
fn stalled(threads: &[Times], within: Duration) -> (Duration, Duration) {
    let sum = threads.iter().copied().fold(Times::default(), Times::plus);
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let longest = (threads.iter().map(|one| one.cpu).max()).unwrap_or_default();
    let ran = longest.max(sum.cpu / cpus);
    let most = sum.waiting.min(within.saturating_sub(ran));
    let alone = |one: &Times| one.waiting.saturating_sub(sum.cpu.saturating_sub(one.cpu));
    let least = threads.iter().map(alone).max().unwrap_or_default();
    (most, least.min(most))
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

/// Returns the `cpu.stat` files of a process's control groups (proc_pid_cgroup(5)) and their
/// ancestors, in hierarchies that limit CPU time.
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
        files.extend(groups.take(MAX_LEVELS).map(|group| group.join("cpu.stat")));
    }
    files
}

/// Reads `throttled_usec` of version 2, `throttled_time` in nanoseconds of version 1.
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
        delays.estimate(MS * used as u32).map(|delay| delay.sum)
    }

    #[test]
    fn threads_that_wait_for_each_other_do_not_stall_the_program() {
        let times = |cpu: u32, waiting: u32| Times {
            cpu: MS * cpu,
            waiting: MS * waiting,
        };
        // One thread; one that a busy one keeps from the CPU; eight that ran in turn, then slept.
        assert_eq!(stalled(&[times(30, 50)], MS * 100), (MS * 50, MS * 50));
        let (_, least) = stalled(&[times(60, 0), times(10, 50)], MS * 100);
        assert_eq!(least, Duration::ZERO);
        let (most, least) = stalled(&[times(10, 50); 8], MS * 100);
        assert!(least.is_zero() && most <= MS * 90, "{most:?}");
        // Other programs kept both from the CPU.
        assert_eq!(stalled(&[times(5, 80); 2], MS * 100).1, MS * 75);
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
        machine.thread(12, 12, 10, 5);
        delays.look();
        assert_eq!(waiting(&delays, 410), Some(MS * 105));
        // Unseen threads are assumed to have waited like the others.
        assert_eq!(waiting(&delays, 2 * 410), Some(MS * 210));
        delays.complete_first(Some((MS * 511, MS * 82)));
        assert_eq!(waiting(&delays, 820), Some(MS * 135));
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
    fn stops_count_from_the_middle_between_two_readings() {
        let mut stops = Stops::default();
        let start = Instant::now();
        for (ms, is_stopped) in [(0, false), (10, true), (50, true), (70, false), (90, false)] {
            stops.add(start + MS * ms, is_stopped);
        }
        assert_eq!(stops.sum, MS * 55);
    }

    #[test]
    fn a_thread_that_there_was_no_room_for_counts_from_when_it_is_seen() {
        let machine = Machine::new();
        for tid in 0..LIMIT as u32 {
            machine.thread(40, 40 + tid, 1, 1);
        }
        machine.thread(9000, 9000, 500, 500);
        let mut delays = machine.watch(Delayed::Processes(vec![40, 9000]));
        assert_eq!(delays.threads.len(), LIMIT);
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
        let line = format!("1 0 0:1 / {} rw - cgroup2 none rw\n", mount.display());
        let mounts = Mount::parse_all(&line);
        let files = throttle_files("1:cpuset:/x\n0::/a/b\n", &mounts);
        let below = |path: &Path| path.strip_prefix(&mount).unwrap().to_owned();
        let found: Vec<_> = files.iter().map(|file| below(file)).collect();
        let expected = ["a/b/cpu.stat", "a/cpu.stat", "cpu.stat"];
        assert_eq!(found, expected.map(PathBuf::from));
        let times: Vec<_> = files.iter().map(|file| throttled(file)).collect();
        assert_eq!(times, [Some(MS / 100), Some(MS * 2), None]);
    }
}
