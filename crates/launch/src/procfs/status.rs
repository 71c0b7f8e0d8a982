//! [`TaskStatus`]: `/proc/PID/status` (proc_pid_status(5)).

/// Lines of a process's or thread's status; `None` for missing lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStatus {
    /// `Tgid`: process id of the thread.
    pub process: Option<u32>,
    /// Second number of `Uid`: effective user.
    pub effective_user: Option<u32>,
    /// `Uid`: real, effective, saved and file system user.
    pub users: Option<[u32; 4]>,
    /// `Gid`: real, effective, saved and file system group.
    pub groups: Option<[u32; 4]>,
    /// `Groups`: supplementary groups.
    pub supplementary_groups: Vec<u32>,
    /// `SigCgt`: signals with a handler, bit N - 1 for signal N.
    pub caught_signals: Option<u64>,
    /// Sum of `voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches`: number of times it left a
    /// CPU.
    pub switches: Option<u64>,
    /// Last number of `NSpid`: id in the task's own, innermost PID namespace (Linux 4.1).
    pub innermost_id: Option<u32>,
}

impl TaskStatus {
    /// Parses a status. Its name may not be UTF-8; line breaks are escaped.
    pub fn parse(status: &[u8]) -> TaskStatus {
        let status = String::from_utf8_lossy(status);
        let numbers = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            words.map(|word| word.parse().ok())
        };
        let four = |name: &str| -> Option<[u32; 4]> {
            let all: Option<Vec<u32>> = numbers(name).collect();
            all?.try_into().ok()
        };
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let switches = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        let (own, others) = (
            switches("voluntary_ctxt_switches:"),
            switches("nonvoluntary_ctxt_switches:"),
        );
        TaskStatus {
            switches: own.zip(others).map(|(own, others)| own + others),
            process: numbers("Tgid:").next().flatten(),
            effective_user: numbers("Uid:").nth(1).flatten(),
            users: four("Uid:"),
            groups: four("Gid:"),
            supplementary_groups: numbers("Groups:").flatten().collect(),
            innermost_id: numbers("NSpid:").next_back().flatten(),
            caught_signals: caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_names() {
        let text = b"Name:\tTgid: \xff 9\nTgid:\t70\nNgid:\t0\nPid:\t71\nUid:\t1\t1000\t1\t2\nGid:\t3\t4\t5\t6\nNSpid:\t71\t5\nGroups:\t7 8 \nSigCgt:\t0000000180004003\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
        let status = TaskStatus::parse(text);
        let expected = (Some(70), Some(1000), Some(5));
        assert_eq!(
            (status.process, status.effective_user, status.innermost_id),
            expected
        );
        assert_eq!(status.users, Some([1, 1000, 1, 2]));
        assert_eq!(status.switches, Some(42));
        assert_eq!(status.groups, Some([3, 4, 5, 6]));
        assert_eq!(status.supplementary_groups, [7, 8]);
        assert_eq!(status.caught_signals, Some(0x1_8000_4003));
        assert_eq!(
            TaskStatus::parse(b"Tgid:\nUid: x y\n"),
            TaskStatus::default()
        );
    }
}
