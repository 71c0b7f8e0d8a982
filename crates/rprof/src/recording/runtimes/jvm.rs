//! Requests perf maps from running JVMs by HotSpot's attach protocol ([`attach`](super::attach)).
//!
//! No code of the process is run. Skips processes with privileges of several users, and processes
//! without a SIGQUIT handler, which the signal would kill.

use std::thread;
use std::time::{Duration, Instant};

use rprof_image::FileView;
use rprof_launch::procfs::{MapsReader, Procfs, TaskStatus};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::attach::{AttachError, Machine};

/// Time limit for all answers together.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of JVMs asked.
const MAX_MACHINES: usize = 64;

/// Makes all JVMs among these processes write perf maps. Returns one message per JVM.
pub(super) fn ask(proc: &Procfs, pids: &[u32]) -> Vec<String> {
    let machines = pids.iter().copied().filter(|pid| is_java(*pid));
    let machines: Vec<u32> = machines.take(MAX_MACHINES).collect();
    let until = Instant::now() + TIME_LIMIT;
    thread::scope(|scope| {
        let asked = machines.iter().map(|pid| {
            let answer = scope.spawn(|| ask_one(proc, *pid, until));
            (pid, answer)
        });
        let asked: Vec<_> = asked.collect();
        let told = asked.into_iter().map(|(pid, answer)| {
            match answer
                .join()
                .unwrap_or_else(|_| Err("rprof failed".to_owned()))
            {
                Ok(map) => format!("Java process {pid} wrote {map}"),
                Err(why) => format!("Java process {pid} wrote no symbols: {why}"),
            }
        });
        told.collect()
    })
}

/// Returns true if a process has loaded HotSpot, or another library named `libjvm.so`.
fn is_java(pid: u32) -> bool {
    let mut mappings = Vec::new();
    let read = MapsReader::new().read_without_build_ids(pid, &mut mappings);
    read.is_ok() && mappings.iter().any(|m| m.path.ends_with(b"/libjvm.so"))
}

/// Asks one JVM. Returns the name of its perf map.
fn ask_one(proc: &Procfs, pid: u32, until: Instant) -> Result<String, String> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let id = raw.ok_or("it has no process id")?;
    // First of all: the pidfd protects against reuse of the process id.
    let process = pidfd_open(id, PidfdFlags::empty()).map_err(|_| "it exited")?;
    let files =
        FileView::of_process(pid).map_err(|error| format!("cannot access its files: {error}"))?;
    // Again: the id cannot be reused now.
    if !is_java(pid) {
        return Err("it exited".to_owned());
    }
    let status = proc.status(pid).ok_or("it exited")?;
    let user = only_user(&status).ok_or("it has privileges of several users")?;
    if !files.may_copy() || files.credentials().is_some_and(|own| own.user() != user) {
        return Err("it belongs to another user".to_owned());
    }
    if !catches_sigquit(&status) {
        return Err("it accepts no attach requests (-Xrs, or still starting)".to_owned());
    }
    let refuses = |argument: &Vec<u8>| argument == b"-XX:+DisableAttachMechanism";
    if proc.arguments(pid).iter().any(refuses) {
        return Err("it accepts no attach requests (-XX:+DisableAttachMechanism)".to_owned());
    }
    let own_pid = status.innermost_id.unwrap_or(pid);
    let machine = Machine {
        pid: id,
        process: &process,
        own_pid,
        user,
        files: &files,
    };
    let map = format!("/tmp/perf-{own_pid}.map");
    match machine.execute("Compiler.perfmap", until) {
        Ok(()) if proc.has_our_root(pid) => Ok(map),
        Ok(()) => Ok(format!("{map} in its container")),
        Err(AttachError::Refused) => {
            Err("it has no Compiler.perfmap, which needs Java 17 or later".to_owned())
        }
        Err(AttachError::TimedOut) => Err(format!("timed out after {} s", TIME_LIMIT.as_secs())),
        Err(AttachError::AnotherProcess) => Err("another process owns its socket".to_owned()),
        Err(AttachError::Io(error)) => Err(format!("attach socket failed: {error}")),
    }
}

/// Returns the user of a process, if it has no privileges of others.
fn only_user(status: &TaskStatus) -> Option<u32> {
    let one =
        |[first, others @ ..]: [u32; 4]| others.iter().all(|id| *id == first).then_some(first);
    one(status.groups?)?;
    one(status.users?)
}

fn catches_sigquit(status: &TaskStatus) -> bool {
    let bit = 1 << (Signal::QUIT.as_raw() - 1);
    status
        .caught_signals
        .is_some_and(|caught| caught & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_several_users_are_told_apart() {
        let status =
            |uid: &str| TaskStatus::parse(format!("Uid:\t{uid}\nGid:\t7\t7\t7\t7\n").as_bytes());
        assert_eq!(only_user(&status("5\t5\t5\t5")), Some(5));
        assert_eq!(only_user(&status("5\t0\t0\t0")), None);
        assert_eq!(only_user(&TaskStatus::default()), None);
    }

    #[test]
    fn signal_without_a_handler_is_not_sent() {
        let status = |mask: &str| TaskStatus::parse(format!("SigCgt:\t{mask}\n").as_bytes());
        assert!(catches_sigquit(&status("0000000000000004")));
        assert!(!catches_sigquit(&status("fffffffffffffffb")));
        assert!(!catches_sigquit(&TaskStatus::default()));
    }

    #[test]
    fn only_java_machines_are_asked() {
        let proc = Procfs::new("/proc");
        assert_eq!(
            ask(&proc, &[std::process::id(), u32::MAX]),
            Vec::<String>::new()
        );
    }
}
