//! Java machines that run already, asked for a perf map by the `jcmd` that comes with them.
//!
//! `jcmd` is a program that the process's user may have made: it runs with the rights of that user and no others, with
//! an empty environment, and is given up after a few seconds. Processes that run with the rights of several users, and those
//! in containers, are left alone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rprof_launch::procfs::{MapsReader, Procfs, TaskStatus};

/// Time in which all have to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time between two looks whether one has answered.
const TICK: Duration = Duration::from_millis(10);

/// Most Java machines that are asked.
const MOST: usize = 64;

/// Asks all Java machines among these processes to write their perf maps. Returns what came of it, in words.
pub(super) fn ask(proc: &Procfs, pids: &[u32]) -> Vec<String> {
    let jvms = pids
        .iter()
        .filter_map(|pid| Some((*pid, library_of(*pid)?)));
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for (pid, library) in jvms.take(MOST) {
        match start(proc, pid, &library) {
            Ok(child) => asked.push((pid, child)),
            Err(why) => told.push(format!(
                "the Java machine {pid} was not asked for names: {why}"
            )),
        }
    }
    let until = Instant::now() + PATIENCE;
    for (pid, mut child) in asked {
        told.push(match answer(&mut child, until) {
            Ok(()) => format!("the Java machine {pid} has written /tmp/perf-{pid}.map"),
            Err(why) => format!("the Java machine {pid} has written no names: {why}"),
        });
    }
    told
}

/// Returns the path of the library that makes a process a Java machine.
fn library_of(pid: u32) -> Option<PathBuf> {
    let mut mappings = Vec::new();
    (MapsReader::new().read_without_build_ids(pid, &mut mappings)).ok()?;
    let library = mappings
        .into_iter()
        .find(|m| m.path.ends_with(b"/libjvm.so"))?;
    Some(PathBuf::from(OsString::from_vec(library.path)))
}

/// Starts `jcmd`. The error is in words.
fn start(proc: &Procfs, pid: u32, library: &Path) -> Result<Child, String> {
    if !proc.has_our_root(pid) {
        return Err(format!(
            "it is in a container; `jcmd PID Compiler.perfmap` there writes them (its id here is {pid})"
        ));
    }
    let status = proc.status(pid).ok_or("it has ended")?;
    let (user, group) = only_user(&status).ok_or("it has the rights of several users")?;
    // HOME/lib/server/libjvm.so, and HOME/bin/jcmd.
    let home = library.ancestors().nth(3);
    let jcmd = home
        .map(|home| home.join("bin/jcmd"))
        .filter(|jcmd| jcmd.is_file());
    let jcmd = jcmd.ok_or("its Java has no jcmd, which is part of the JDK")?;
    let mut command = Command::new(jcmd);
    command.arg(pid.to_string()).arg("Compiler.perfmap");
    command.env_clear().current_dir("/").process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if rustix::process::geteuid().as_raw() != user {
        command.uid(user).gid(group);
    }
    command
        .spawn()
        .map_err(|error| format!("its jcmd cannot be run: {error}"))
}

/// Returns user and group of a process, if it has the rights of no others.
fn only_user(status: &TaskStatus) -> Option<(u32, u32)> {
    let one =
        |[first, others @ ..]: [u32; 4]| others.iter().all(|id| *id == first).then_some(first);
    Some((one(status.users?)?, one(status.groups?)?))
}

/// Waits until `jcmd` has ended. One that takes too long is ended, with all that it has started.
fn answer(child: &mut Child, until: Instant) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => {
                return Err("its jcmd failed; Java 17 and later have Compiler.perfmap".to_owned());
            }
            Ok(None) if Instant::now() < until => thread::sleep(TICK),
            Ok(None) => {
                child.kill().ok();
                child.wait().ok();
                return Err(format!("it did not answer within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_several_users_are_told_apart() {
        let status =
            |uid: &str| TaskStatus::parse(format!("Uid:\t{uid}\nGid:\t7\t7\t7\t7\n").as_bytes());
        assert_eq!(only_user(&status("5\t5\t5\t5")), Some((5, 7)));
        assert_eq!(only_user(&status("5\t0\t0\t0")), None);
        assert_eq!(only_user(&TaskStatus::default()), None);
    }

    #[test]
    fn only_java_machines_are_asked() {
        let proc = Procfs::new("/proc");
        assert_eq!(
            ask(&proc, &[std::process::id(), u32::MAX]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn who_never_answers_is_given_up() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep");
        let why = answer(&mut child, Instant::now()).expect_err("it sleeps");
        assert!(why.contains("did not answer"), "{why}");
    }
}
