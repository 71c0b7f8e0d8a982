//! [`RunDelays`]: time that threads were runnable without a CPU, as counted by the scheduler.
//!
//! The second field of `/proc/PID/task/TID/schedstat`, which any user may read, counts nanoseconds
//! from a wakeup or preemption to the next run (kernel/sched/stats.h, `sched_info_arrive`). It
//! requires `CONFIG_SCHED_INFO`. Switch records show only the part after a preemption.

use std::time::Duration;

use crate::procfs::Procfs;
use crate::target::TargetThread;

/// Maximum threads to read, at about 10 us each.
const LIMIT: usize = 20_000;

/// Time that threads waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunDelay {
    /// Number of counted threads.
    pub threads: u64,
    /// Sum of their times.
    pub time: Duration,
}

/// Threads with their waiting times since a start.
#[derive(Debug)]
pub struct RunDelays {
    proc: Procfs,
    /// Threads with their times at the start.
    threads: Vec<(TargetThread, Duration)>,
}

impl RunDelays {
    /// Starts with these threads, at most 20,000.
    pub fn begin(threads: impl IntoIterator<Item = TargetThread>) -> RunDelays {
        RunDelays::begin_in(Procfs::default(), threads)
    }

    /// Starts with all threads of the machine.
    pub fn begin_with_all() -> RunDelays {
        let proc = Procfs::default();
        let pids = proc.process_ids().into_iter();
        let threads = pids.flat_map(|pid| {
            let tids = Procfs::default().thread_ids(pid).into_iter();
            tids.map(move |tid| TargetThread { pid, tid })
        });
        RunDelays::begin(threads)
    }

    fn begin_in(proc: Procfs, threads: impl IntoIterator<Item = TargetThread>) -> RunDelays {
        let read = |thread: TargetThread| Some((thread, proc.run_delay(thread.pid, thread.tid)?));
        let threads = (threads.into_iter()).take(LIMIT).filter_map(read).collect();
        RunDelays { proc, threads }
    }

    /// Returns the time since the start, of threads that still run.
    pub fn so_far(&self) -> RunDelay {
        let mut sum = RunDelay::default();
        for (thread, before) in &self.threads {
            // A reused id starts again from 0.
            let now = self.proc.run_delay(thread.pid, thread.tid);
            if let Some(time) = now.and_then(|now| now.checked_sub(*before)) {
                sum.threads += 1;
                sum.time += time;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn threads_that_live_on_are_counted_from_the_beginning() {
        let root = tempfile::tempdir().unwrap();
        let write = |tid: u32, text: &str| {
            let folder = root.path().join(format!("1/task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("schedstat"), text).unwrap();
        };
        for tid in [1, 2, 3] {
            write(tid, "1000 500 6\n");
        }
        write(4, "0 0\n");
        let threads = [1, 2, 3, 4, 5].map(|tid| TargetThread { pid: 1, tid });
        let delays = RunDelays::begin_in(Procfs::new(root.path()), threads);
        write(1, "2000 1700 9\n");
        write(2, "10 20 1\n");
        fs::remove_dir_all(root.path().join("1/task/3")).unwrap();
        let found = delays.so_far();
        assert_eq!((found.threads, found.time.as_nanos()), (2, 1200));
    }
}
