//! Who there is, from /proc (proc_pid_stat(5), proc_pid_task(5)).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Ticks a second in which /proc counts (`USER_HZ`), on all architectures that perf runs on but
/// Alpha.
const TICKS: u64 = 100;

/// Where /proc is mounted.
#[derive(Clone, Debug)]
pub struct Proc(PathBuf);

impl Default for Proc {
    fn default() -> Proc {
        Proc(PathBuf::from("/proc"))
    }
}

/// What a process's `stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name (comm).
    pub name: Vec<u8>,
    /// Its parent.
    pub parent: u32,
    /// Since the machine was started; never later than it was.
    pub started: Duration,
}

impl Proc {
    /// Another folder than `/proc`.
    pub fn at(folder: &Path) -> Proc {
        Proc(folder.to_owned())
    }

    /// All processes, in the order of their numbers.
    pub fn pids(&self) -> Vec<u32> {
        numbers(&self.0)
    }

    /// The threads of a process; none if it has ended.
    pub fn threads(&self, pid: u32) -> Vec<u32> {
        numbers(&self.0.join(pid.to_string()).join("task"))
    }

    /// A thread's name.
    pub fn name(&self, pid: u32, tid: u32) -> Option<Vec<u8>> {
        let mut name = fs::read(self.0.join(format!("{pid}/task/{tid}/comm"))).ok()?;
        if name.last() == Some(&b'\n') {
            name.pop();
        }
        Some(name)
    }

    /// What the process's `stat` says; `None` if it has ended.
    pub fn stat(&self, pid: u32) -> Option<Stat> {
        parse(&fs::read(self.0.join(format!("{pid}/stat"))).ok()?)
    }
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// `pid (name) state parent ...`, the 22nd being the start. A name may have blanks, line breaks
/// and parentheses in it, so it reaches to the last of these.
fn parse(stat: &[u8]) -> Option<Stat> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    // From the third on.
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let ticks: u64 = fields.nth(22 - 5)?.parse().ok()?;
    Some(Stat {
        name,
        parent,
        started: Duration::from_millis(ticks.saturating_mul(1000 / TICKS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_anything() {
        let line = |name: &str| {
            format!("12 ({name}) S 3 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2 3 4\n")
        };
        for name in ["sh", "a b", "x) S 9 (y", "", "line\nbreak"] {
            let stat = parse(line(name).as_bytes()).unwrap();
            assert_eq!(stat.name, name.as_bytes());
            assert_eq!(stat.parent, 3);
            assert_eq!(stat.started, Duration::from_millis(47_110));
        }
        for wrong in ["", "1 (x", "1 x) S", "1 (x) S", ")1(", "1 (x) S 3 12 0"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn this_process_is_there() {
        let me = std::process::id();
        let proc = Proc::default();
        assert!(proc.pids().contains(&me) && proc.threads(me).contains(&me));
        let stat = proc.stat(me).unwrap();
        assert_eq!(proc.name(me, me).unwrap(), stat.name);
        assert!(stat.started > Duration::ZERO);
        assert!(proc.threads(u32::MAX).is_empty() && proc.stat(u32::MAX).is_none());
    }
}
