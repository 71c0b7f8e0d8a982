//! [`TaskStat`]: `/proc/PID/stat` (proc_pid_stat(5)).

use std::time::Duration;

/// Flag of a thread of the kernel, in include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Name, parent and start of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStat {
    /// Name (comm), as arbitrary bytes.
    pub comm: Vec<u8>,
    /// Process id of the parent; 0 for processes started by the kernel.
    pub parent: u32,
    /// True for an exited task. Its process may continue with other threads.
    pub has_ended: bool,
    /// True for a thread of the kernel (PF_KTHREAD).
    pub is_kernel_thread: bool,
    /// True for a task that a signal or a debugger has stopped.
    pub is_stopped: bool,
    /// CPU time of reaped children and their children, rounded down to clock ticks.
    pub waited_for: Duration,
    /// Start time since boot, rounded down to clock ticks.
    pub started: Duration,
}

impl TaskStat {
    /// Parses `pid (name) state parent ...`. Field 9 has the task's flags. Fields 16 and 17 are the times of children, and field
    /// 22 is the start, in clock ticks. A name may contain blanks, line breaks and parentheses, so
    /// it ends at the last `)`.
    pub(super) fn parse(stat: &[u8]) -> Option<TaskStat> {
        let open = stat.iter().position(|byte| *byte == b'(')?;
        let close = stat.iter().rposition(|byte| *byte == b')')?;
        let comm = stat.get(open + 1..close)?.to_vec();
        let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
        // Starts at the third field, state.
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags: u64 = fields.nth(9 - 5)?.parse().ok()?;
        let user: u64 = fields.nth(16 - 10)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let started: u64 = fields.nth(22 - 18)?.parse().ok()?;
        Some(TaskStat {
            comm,
            parent,
            is_kernel_thread: flags & PF_KTHREAD != 0,
            has_ended: matches!(state, "Z" | "X" | "x"),
            is_stopped: matches!(state, "T" | "t"),
            waited_for: ticks(user.saturating_add(system)),
            started: ticks(started),
        })
    }
}

pub(super) fn ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().clamp(1, 1000);
    Duration::from_millis(ticks.saturating_mul(1000 / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_do_not_shift_the_fields() {
        let line = |name: &str| {
            format!("12 ({name}) S 3 12 12 0 -1 4194560 1 0 0 0 5 6 7 8 20 0 1 0 4711 2 3 4\n")
        };
        assert_eq!(rustix::param::clock_ticks_per_second(), 100, "USER_HZ");
        for name in ["sh", "a b", "x) S 9 (y", "", "line\nbreak"] {
            let stat = TaskStat::parse(line(name).as_bytes()).unwrap();
            assert_eq!(stat.comm, name.as_bytes());
            assert_eq!((stat.parent, stat.has_ended), (3, false));
            assert_eq!(stat.started, Duration::from_millis(47_110));
            assert_eq!(stat.waited_for, Duration::from_millis(150));
        }
    }

    #[test]
    fn threads_of_the_kernel_have_a_flag() {
        let of = |flags: u32, state: &str| {
            let line =
                format!("2 (kthreadd) {state} 0 0 0 0 -1 {flags} 1 0 0 0 5 6 7 8 20 0 1 0 1");
            TaskStat::parse(line.as_bytes()).map(|stat| stat.is_kernel_thread)
        };
        assert_eq!(of(2_129_984, "S"), Some(true));
        assert_eq!(of(4_194_560, "S"), Some(false));
        // A zombie of a program.
        assert_eq!(of(4_228_100, "Z"), Some(false));
    }

    #[test]
    fn ended_and_stopped_tasks_follow_from_the_state() {
        for (state, expected) in [
            ("Z", (true, false)),
            ("T", (false, true)),
            ("t", (false, true)),
            ("S", (false, false)),
        ] {
            let line = format!(
                "12 (S) {state} 3 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2 3 4\n"
            );
            let stat = TaskStat::parse(line.as_bytes()).unwrap();
            assert_eq!((stat.has_ended, stat.is_stopped), expected, "{state}");
        }
    }

    #[test]
    fn text_that_is_no_stat_is_none() {
        for wrong in ["", "1 (x", "1 x) S", "1 (x) S", ")1(", "1 (x) S 3 12 0"] {
            assert_eq!(TaskStat::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
