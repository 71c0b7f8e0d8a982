//! Processes that end with the test that started them, in any case.
//!
//! A panicking test drops its child processes, but not their children, such as those of `rprof
//! record`. A killed test binary drops nothing. So each process gets an environment variable, which
//! its descendants inherit, even in other sessions. Dropping the [`Tether`] kills all processes
//! with its value. If the test binary ends without dropping it, a shell detects that by the end of
//! a pipe, and kills the rest.
//!
//! Processes with a cleared environment (`env -i`) are not found.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::warden::{VARIABLE, Warden};

/// Kills all processes with a variable that begins with the shell's `$0`. Ends after two looks in
/// vain: a process within exec has no environment for a moment.
const KILL: &str = "n=0 none=0
while [ $n -lt 100 ]; do
  n=$((n+1)); left=$(grep -als \"RPROF_TEST_TETHER=$0-\" /proc/[0-9]*/environ)
  [ -n \"$left\" ] && none=0 || none=$((none+1))
  [ $none -lt 2 ] || exit 0
  [ $none -eq 0 ] || sleep 0.1
  for f in $left; do p=${f#/proc/}; kill -KILL ${p%/environ} 2>/dev/null; done
done";

/// A group of processes, killed when this is dropped, or when the test binary ends in any way.
#[derive(Debug)]
pub struct Tether(String);

impl Tether {
    /// Creates an empty group.
    pub fn new() -> Tether {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Tether(format!("{}-{number}.", run()))
    }

    /// Adds a command and its descendants to the group.
    pub fn tie<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(VARIABLE, &self.0)
    }

    /// Returns the environment variable of the group, for processes not started by a [`Command`].
    pub fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.0)
    }

    fn members(&self) -> Vec<Pid> {
        let text = format!("{VARIABLE}={}", self.0);
        let has = |environ: &[u8]| (environ.split(|b| *b == 0)).any(|one| one == text.as_bytes());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
            .filter(|pid| {
                let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
                fs::read(path).is_ok_and(|environ| has(&environ))
            })
            .collect()
    }
}

impl Default for Tether {
    fn default() -> Tether {
        Tether::new()
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        // Repeats, because a member may have started another meanwhile, or may have no environment
        // while it is within exec. Processes in uninterruptible system calls are left to the warden.
        let mut in_vain = 0;
        for _ in 0..100 {
            let members = self.members();
            in_vain = if members.is_empty() { in_vain + 1 } else { 0 };
            if in_vain == 2 {
                break;
            }
            for pid in members {
                kill_process(pid, Signal::KILL).ok();
            }
            std::thread::sleep(Duration::from_millis(in_vain));
        }
    }
}

/// Returns the prefix of all groups of this process. A warden watches it.
fn run() -> &'static str {
    static RUN: OnceLock<(String, Warden)> = OnceLock::new();
    let (run, _) = RUN.get_or_init(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.map_or(0, |time| time.as_nanos());
        let run = format!("{}-{time}", std::process::id());
        let warden = Warden::post(KILL, &[OsStr::new(&run)]);
        (run, warden)
    });
    run
}

/// Resets all signals of a command to their default action, as in a shell's foreground.
///
/// A shell without job control ignores SIGINT and SIGQUIT in background commands, and nohup(1)
/// ignores SIGHUP. All descendants inherit that.
pub fn default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in 1..=31 {
            // SAFETY: signal(2) is async-signal-safe, and fails harmlessly for SIGKILL and SIGSTOP.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only calls signal(2).
    unsafe { command.pre_exec(reset) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};
    use std::time::Instant;

    use super::*;

    fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
        let patience = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < patience, "in vain waited until {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A process that leaves its session and its parent, and prints its pid.
    const DAEMON: &str = "setsid sh -c 'echo $$; exec sleep 1000' & wait";

    fn start(tether: &Tether) -> (Child, Pid) {
        let mut command = Command::new("sh");
        command.args(["-c", DAEMON]).stdout(Stdio::piped());
        let mut child = tether.tie(&mut command).spawn().unwrap();
        let pid = said(&mut child);
        (child, pid)
    }

    fn said(child: &mut Child) -> Pid {
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        Pid::from_raw(line.trim().parse().unwrap()).unwrap()
    }

    fn is_gone(pid: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        // In a container, zombies may never be reaped.
        stat.map_or(true, |stat| stat.contains(") Z "))
    }

    #[test]
    fn processes_end_with_their_group_and_no_others() {
        let (ours, other) = (Tether::new(), Tether::new());
        let (mut child, pid) = start(&ours);
        let (mut other_child, other_pid) = start(&other);
        drop(ours);
        eventually("the daemon is gone", || is_gone(pid));
        assert!(!is_gone(other_pid));
        drop(other);
        eventually("the other is gone", || is_gone(other_pid));
        child.wait().unwrap();
        other_child.wait().unwrap();
    }

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn example() {
        let tether = Tether::new();
        let (mut child, pid) = start(&tether);
        // Bypasses the test harness, which captures standard error.
        let line = format!("{}\n", pid.as_raw_nonzero());
        rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn processes_end_when_the_test_binary_is_killed() {
        for signal in [Signal::KILL, Signal::INT] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "tether::tests::example"]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::piped());
            let mut child = default_signals(&mut command).spawn().unwrap();
            let mut line = String::new();
            let mut err = BufReader::new(child.stderr.take().unwrap());
            err.read_line(&mut line).unwrap();
            let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
            assert!(!is_gone(pid));
            kill_process(Pid::from_child(&child), signal).unwrap();
            child.wait().unwrap();
            eventually("the daemon is gone", || is_gone(pid));
        }
    }

    #[test]
    fn ignored_signals_are_not_inherited() {
        let status = |command: &mut Command| {
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let mask = text.split_whitespace().last().unwrap().to_owned();
            u64::from_str_radix(&mask, 16).unwrap()
        };
        let script = "trap '' INT QUIT HUP; exec \"$0\" \"$@\"";
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", script, "grep", "SigIgn", "/proc/self/status"]);
        assert_eq!(status(&mut ignoring) & 0b111, 0b111);
        // Does not check the signals from 32 on, which the C library reserves.
        let mut command = Command::new("grep");
        command.args(["SigIgn", "/proc/self/status"]);
        assert_eq!(status(default_signals(&mut command)) & 0x7fff_ffff, 0);
    }
}
