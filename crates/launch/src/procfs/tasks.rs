//! [`Procfs`]: processes and threads by id.

use super::stat::{TaskStat, ticks};
use super::status::TaskStatus;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Maximum number of bytes read from a command line.
const MAX_ARGUMENT_BYTES: u64 = 128 << 10;

/// Nanoseconds by which the clocks of a time namespace are ahead of the kernel's
/// (time_namespaces(7)). Records and samples have the kernel's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffsets {
    /// Offset in ns of `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
    pub monotonic: i64,
    /// Offset in ns of `CLOCK_BOOTTIME`.
    pub boottime: i64,
}

impl ClockOffsets {
    /// Returns the offsets of this process. They never change: only a process with one thread can
    /// enter another time namespace.
    pub fn own() -> ClockOffsets {
        static OWN: OnceLock<ClockOffsets> = OnceLock::new();
        *OWN.get_or_init(|| Procfs::default().clock_offsets(std::process::id()))
    }

    /// Parses lines of a clock, seconds and nanoseconds.
    fn parse(text: &str) -> ClockOffsets {
        let of = |clock: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(clock));
            let mut numbers = line?.split_ascii_whitespace().map(str::parse::<i64>);
            let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
        };
        ClockOffsets {
            monotonic: of("monotonic ").unwrap_or(0),
            boottime: of("boottime ").unwrap_or(0),
        }
    }
}

/// Mounted /proc file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procfs {
    root: PathBuf,
    /// True for a /proc of another PID namespace, where ids mean other processes.
    is_foreign: bool,
}

impl Default for Procfs {
    fn default() -> Procfs {
        Procfs::new("/proc")
    }
}

impl Procfs {
    /// Opens a /proc in another folder. Reads no processes from a /proc of [another PID
    /// namespace](Self::is_of_other_pid_namespace).
    pub fn new(root: impl Into<PathBuf>) -> Procfs {
        let root = root.into();
        let own = fs::read_link(root.join("self")).ok();
        let own = own.and_then(|link| link.to_str()?.parse().ok());
        Procfs {
            is_foreign: own.is_some_and(|own: u32| own != std::process::id()),
            root,
        }
    }

    /// Returns true if this process has another pid here, as in a PID namespace without its own
    /// /proc (`unshare --pid --fork` without `--mount-proc`). Pids then mean other processes.
    pub fn is_of_other_pid_namespace(&self) -> bool {
        self.is_foreign
    }

    /// Returns true if nothing is mounted here.
    pub fn is_missing(&self) -> bool {
        fs::symlink_metadata(self.root.join("self")).is_err()
    }

    /// Returns the ids of all visible processes, ascending.
    pub fn process_ids(&self) -> Vec<u32> {
        match self.is_foreign {
            true => Vec::new(),
            false => ids_in(&self.root),
        }
    }

    /// Returns true if ids here are the kernel's own, outside nested PID namespaces such as
    /// containers (pid_namespaces(7)). True if unknown.
    pub fn is_in_first_pid_namespace(&self) -> bool {
        /// `PROC_PID_INIT_INO`.
        const FIRST: u64 = 0xEFFF_FFFC;
        let namespace = fs::metadata(self.root.join("self/ns/pid"));
        namespace.map_or(true, |namespace| namespace.ino() == FIRST)
    }

    /// Returns the process id for a process or thread id (`Tgid`); `None` if it does not exist.
    pub fn process_of(&self, id: u32) -> Option<u32> {
        self.status(id)?.process
    }

    /// Returns a process's thread ids, ascending; none if it has exited.
    pub fn thread_ids(&self, pid: u32) -> Vec<u32> {
        ids_in(&self.folder(pid).join("task"))
    }

    /// Returns the unreaped children of a thread (proc_pid_task(5), `children`); none if the kernel
    /// does not list them.
    pub fn children(&self, pid: u32, tid: u32) -> Vec<u32> {
        let path = self.folder(pid).join(format!("task/{tid}/children"));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_ascii_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect()
    }

    /// Returns true if a process or thread has this id, even an exited one that is not reaped.
    pub fn exists(&self, id: u32) -> bool {
        self.folder(id).exists()
    }

    /// Returns a thread's name (comm), at most 15 arbitrary bytes.
    pub fn comm(&self, pid: u32, tid: u32) -> Option<Vec<u8>> {
        let mut name = fs::read(self.folder(pid).join(format!("task/{tid}/comm"))).ok()?;
        if name.last() == Some(&b'\n') {
            name.pop();
        }
        Some(name)
    }

    /// Reads the `stat` of a process.
    pub fn stat(&self, pid: u32) -> Option<TaskStat> {
        TaskStat::parse(&fs::read(self.folder(pid).join("stat")).ok()?)
    }

    /// Returns the id for reading a process's memory, mappings, root and namespaces: the pid, or a
    /// running thread's id if the first thread has exited (pthread_exit(3) in `main`).
    pub fn id_with_memory(&self, pid: u32) -> u32 {
        let has_ended = |id: u32| self.stat(id).is_none_or(|stat| stat.has_ended);
        if !has_ended(pid) {
            return pid;
        }
        let living = (self.thread_ids(pid).into_iter()).find(|tid| *tid != pid && !has_ended(*tid));
        living.unwrap_or(pid)
    }

    /// Returns the time up to the last start on a CPU or the last tick.
    pub(crate) fn thread_cpu_time(&self, pid: u32, tid: u32) -> Option<Duration> {
        self.schedstat(pid, tid, 0)
    }

    /// Returns the time that a thread was runnable without a CPU; `None` if the kernel does not
    /// count it.
    pub fn run_delay(&self, pid: u32, tid: u32) -> Option<Duration> {
        self.schedstat(pid, tid, 1)
    }

    fn schedstat(&self, pid: u32, tid: u32, field: usize) -> Option<Duration> {
        let path = self.folder(pid).join(format!("task/{tid}/schedstat"));
        nanos_in(&fs::read_to_string(path).ok()?, field)
    }

    pub(crate) fn thread_times(&self, pid: u32, tid: u32) -> Option<(Duration, Duration)> {
        let path = self.folder(pid).join(format!("task/{tid}/schedstat"));
        let text = fs::read_to_string(path).ok()?;
        Some((nanos_in(&text, 0)?, nanos_in(&text, 1)?))
    }

    /// Returns the CPU time and the time waiting for a CPU, of all threads (`/proc/schedstat`,
    /// Documentation/scheduler/sched-stats.rst).
    pub(crate) fn scheduled_and_waited(&self) -> Option<(Duration, Duration)> {
        let text = fs::read_to_string(self.root.join("schedstat")).ok()?;
        let cpus = text.lines().filter(|line| line.starts_with("cpu"));
        let times: Vec<_> = cpus
            .map(|line| Some((nanos_in(line, 7)?, nanos_in(line, 8)?)))
            .collect();
        let sums = times
            .into_iter()
            .try_fold((Duration::ZERO, Duration::ZERO), |sum, cpu| {
                let (ran, waited) = cpu?;
                Some((sum.0.checked_add(ran)?, sum.1.checked_add(waited)?))
            });
        sums.filter(|(ran, _)| !ran.is_zero())
    }

    /// Returns the non-idle time of these CPUs since boot, rounded to clock ticks (`/proc/stat`,
    /// proc_stat(5)). Returns `None` if a CPU is missing.
    pub fn busy_time(&self, cpus: &[u32]) -> Option<Duration> {
        let text = fs::read_to_string(self.root.join("stat")).ok()?;
        let busy = |cpu: &u32| -> Option<u64> {
            let line = text.lines().find_map(|line| {
                let (name, rest) = line.split_once(' ')?;
                (name.strip_prefix("cpu")?.parse() == Ok(*cpu)).then_some(rest)
            })?;
            // user nice system idle iowait irq softirq steal, and guest times, which are part of
            // user.
            let fields: Vec<u64> = line.split(' ').map_while(|n| n.parse().ok()).collect();
            let of = |place: usize| fields.get(place).copied().unwrap_or(0);
            Some([0, 1, 2, 5, 6].into_iter().map(of).sum())
        };
        let sum = cpus.iter().map(busy).sum::<Option<u64>>()?;
        Some(ticks(sum))
    }

    /// Reads the `status` of a process or thread.
    pub fn status(&self, id: u32) -> Option<TaskStatus> {
        Some(TaskStatus::parse(
            &fs::read(self.folder(id).join("status")).ok()?,
        ))
    }

    /// Returns the arguments of a process, starting with the program, up to 128 KiB. Empty for
    /// kernel threads and exited processes.
    pub fn arguments(&self, pid: u32) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = fs::File::open(self.folder(pid).join("cmdline"));
        if let Ok(file) = file {
            file.take(MAX_ARGUMENT_BYTES).read_to_end(&mut bytes).ok();
        }
        let arguments = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        match arguments.is_empty() {
            true => Vec::new(),
            false => arguments
                .split(|byte| *byte == 0)
                .map(<[u8]>::to_vec)
                .collect(),
        }
    }

    /// Returns how often a thread has left a CPU.
    pub fn switches(&self, tid: u32) -> Option<u64> {
        self.status(tid)?.switches
    }

    /// Returns the user-mode stack and instruction pointers of a blocked thread. Returns `None` for
    /// a running thread, or without permission.
    pub fn blocked_at(&self, tid: u32) -> Option<(u64, u64)> {
        let line = fs::read_to_string(self.folder(tid).join("syscall")).ok()?;
        parse_blocked(&line)
    }

    /// Returns the offsets of a process's clocks; zeros if there are none or they are unknown.
    pub fn clock_offsets(&self, pid: u32) -> ClockOffsets {
        let folder = self.folder(pid);
        let namespace = |name: &str| fs::read_link(folder.join("ns").join(name)).ok();
        // The file has the offsets of future children, which differ until the next exec.
        match namespace("time") == namespace("time_for_children") {
            true => {
                let text = fs::read_to_string(folder.join("timens_offsets"));
                ClockOffsets::parse(&text.unwrap_or_default())
            }
            false => ClockOffsets::default(),
        }
    }

    /// Returns the owner of a process's folder: its effective user, or root if the process is not
    /// dumpable (proc_pid(5)).
    pub fn owner(&self, pid: u32) -> Option<u32> {
        Some(fs::metadata(self.folder(pid)).ok()?.uid())
    }

    /// Returns device and inode of a thread's namespaces, in the order of `PERF_RECORD_NAMESPACES`:
    /// net, uts, ipc, pid, user, mnt, cgroup. Zeroes without permission; `None` if the thread has
    /// exited.
    pub fn namespaces(&self, tid: u32) -> Option<Vec<(u64, u64)>> {
        let folder = self.folder(tid).join("ns");
        let link = |name: &str| {
            let found = fs::metadata(folder.join(name)).ok()?;
            Some((found.dev(), found.ino()))
        };
        let names = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
        let links = names.map(|name| link(name).unwrap_or_default());
        self.exists(tid).then(|| links.to_vec())
    }

    /// Returns the start of a process as wall-clock time, precise to one second.
    pub fn start_time(&self, pid: u32) -> Option<SystemTime> {
        let started = self.stat(pid)?.started;
        self.boot_time()?.checked_add(started)
    }

    /// Returns the start of the kernel as wall-clock time, precise to 10 ms.
    pub fn boot_time(&self) -> Option<SystemTime> {
        let uptime = fs::read_to_string(self.root.join("uptime")).ok()?;
        let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
        SystemTime::now().checked_sub(Duration::try_from_secs_f64(uptime).ok()?)
    }

    /// Returns the path to a process's root directory.
    pub fn root_of(&self, pid: u32) -> PathBuf {
        self.folder(pid).join("root")
    }

    /// Returns true if a process has the same root and mount namespace as this program, so that
    /// both see the same files.
    pub fn has_our_root(&self, pid: u32) -> bool {
        let link = |path: PathBuf| fs::read_link(path).ok();
        let us = self.root.join("self");
        let namespace = link(self.folder(pid).join("ns/mnt"));
        namespace.is_some()
            && namespace == link(us.join("ns/mnt"))
            && link(self.root_of(pid)) == link(us.join("root"))
    }

    pub(crate) fn open_maps(&self, pid: u32) -> io::Result<fs::File> {
        fs::File::open(self.folder(pid).join("maps"))
    }

    /// Returns the folder of a process or thread, even an unlisted one. In [another PID
    /// namespace](Self::is_of_other_pid_namespace), returns a missing folder for all but this
    /// process.
    pub fn folder(&self, id: u32) -> PathBuf {
        match self.is_foreign {
            false => self.root.join(id.to_string()),
            true if id == std::process::id() => self.root.join("self"),
            true => self.root.join("self").join("of-other-pid-namespace"),
        }
    }
}

/// Parses `/proc/PID/syscall`: the system call and its six arguments, if any, then the two
/// addresses.
fn parse_blocked(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace().rev();
    let mut address = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let ip = address()?;
    Some((address()?, ip)).filter(|(sp, ip)| *sp != 0 && *ip != 0)
}

fn nanos_in(text: &str, field: usize) -> Option<Duration> {
    let nanos = text.split_ascii_whitespace().nth(field)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn ids_in(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut ids: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_is_read_in_a_proc_of_another_pid_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let us = std::process::id();
        for id in ["1", "7", "70"] {
            fs::create_dir_all(folder.join(id).join("task").join(id)).unwrap();
            fs::write(folder.join(id).join("task").join(id).join("comm"), id).unwrap();
        }
        let proc = |own: &str| {
            let link = folder.join("self");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(own, &link).unwrap();
            Procfs::new(folder)
        };
        let other = proc("70");
        assert!(us != 70 && other.is_of_other_pid_namespace());
        assert_eq!(other.process_ids(), []);
        assert_eq!(other.comm(7, 7), None);
        assert!(!other.exists(7));
        assert_eq!(other.folder(us), folder.join("self"));
        let ours = proc(&us.to_string());
        assert!(!ours.is_of_other_pid_namespace());
        assert_eq!(ours.comm(7, 7), Some(b"7".to_vec()));
        assert!(!Procfs::default().is_of_other_pid_namespace());
        assert!(!other.is_missing() && Procfs::new(folder.join("none")).is_missing());
    }

    #[test]
    fn this_process_is_found_with_its_thread_name_user_and_root() {
        let me = std::process::id();
        let proc = Procfs::default();
        assert!(proc.process_ids().contains(&me) && proc.thread_ids(me).contains(&me));
        let stat = proc.stat(me).unwrap();
        assert_eq!(proc.comm(me, me).unwrap(), stat.comm);
        assert_eq!(proc.owner(me), Some(rustix::process::geteuid().as_raw()));
        assert!(proc.exists(me) && proc.has_our_root(me));
        assert!(proc.root_of(me).join("proc").exists());
        let arguments = proc.arguments(me);
        assert_eq!(arguments.len(), std::env::args_os().count());
        assert!(proc.arguments(u32::MAX).is_empty());
        let age = proc.start_time(me).unwrap().elapsed().unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn memory_is_found_by_a_thread_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Procfs::new(folder.path());
        let task = |id: u32, state: &str| {
            let line =
                format!("{id} (x) {state} 3 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1 2 3 4");
            fs::create_dir_all(folder.path().join(format!("12/task/{id}"))).unwrap();
            fs::create_dir_all(proc.folder(id)).unwrap();
            fs::write(proc.folder(id).join("stat"), line).unwrap();
        };
        task(12, "R");
        task(13, "Z");
        task(14, "S");
        assert_eq!(proc.id_with_memory(12), 12);
        task(12, "Z");
        assert_eq!(proc.id_with_memory(12), 14);
        task(14, "Z");
        assert_eq!(proc.id_with_memory(12), 12);
        assert_eq!(Procfs::default().id_with_memory(u32::MAX), u32::MAX);
    }

    #[test]
    fn cpu_time_of_threads_and_cpus_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Procfs::new(folder.path());
        assert_eq!(proc.busy_time(&[0]), None);
        let text =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 100 4 5 100 7 8\ncpu10 10 0 0 0\nintr 1\n";
        fs::write(folder.path().join("stat"), text).unwrap();
        assert_eq!(proc.busy_time(&[0]), Some(Duration::from_millis(150)));
        assert_eq!(proc.busy_time(&[0, 10]), Some(Duration::from_millis(250)));
        assert_eq!(proc.busy_time(&[1]), None);
        assert_eq!(proc.thread_cpu_time(1, 1), None);
        fs::create_dir_all(folder.path().join("1/task/2")).unwrap();
        fs::write(folder.path().join("1/task/2/schedstat"), "1234 5 6\n").unwrap();
        assert_eq!(proc.thread_cpu_time(1, 2), Some(Duration::from_nanos(1234)));
    }

    #[test]
    fn clock_offsets_are_read_unless_they_are_those_of_children() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Procfs::new(folder.path());
        assert_eq!(proc.clock_offsets(1), ClockOffsets::default());
        let namespaces = folder.path().join("1/ns");
        fs::create_dir_all(&namespaces).unwrap();
        let set = |name: &str, number: u32| {
            let _ = fs::remove_file(namespaces.join(name));
            let link = format!("time:[{number}]");
            std::os::unix::fs::symlink(link, namespaces.join(name)).unwrap();
        };
        set("time", 1);
        set("time_for_children", 1);
        let text = "monotonic      100000         5\nboottime           -3 999999999\n";
        fs::write(folder.path().join("1/timens_offsets"), text).unwrap();
        let expected = ClockOffsets {
            monotonic: 100_000_000_000_005,
            boottime: -2_000_000_001,
        };
        assert_eq!(proc.clock_offsets(1), expected);
        set("time_for_children", 2);
        assert_eq!(proc.clock_offsets(1), ClockOffsets::default());
        for text in [
            "",
            "monotonic",
            "monotonic 1",
            "monotonic x 1",
            "monotonic 9223372036854775807 0",
        ] {
            assert_eq!(ClockOffsets::parse(text), ClockOffsets::default(), "{text}");
        }
    }

    #[test]
    fn nothing_is_answered_of_a_process_that_is_not_there() {
        let (proc, none) = (Procfs::default(), u32::MAX);
        assert!(proc.thread_ids(none).is_empty() && !proc.exists(none));
        assert_eq!((proc.stat(none), proc.status(none)), (None, None));
        assert_eq!((proc.owner(none), proc.start_time(none)), (None, None));
        assert!(!proc.has_our_root(none));
    }
}
