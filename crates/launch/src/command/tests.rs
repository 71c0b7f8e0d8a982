//! Tests with real processes.

use super::*;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, test_kill_process};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

fn sh(script: &str) -> Launcher {
    Launcher::new("sh").args(["-c", script])
}

fn run(launcher: &Launcher) -> Option<i32> {
    let mut child = launcher.spawn().unwrap();
    child.release().unwrap();
    child.wait().unwrap().code()
}

#[test]
fn exit_codes_and_signals_come_back() {
    assert_eq!(run(&sh("exit 7")), Some(7));
    let mut child = sh("kill -TERM $$").spawn().unwrap();
    child.release().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        (status.code(), status.signal()),
        (None, Some(libc::SIGTERM))
    );
    assert_eq!(child.wait().unwrap(), status, "told again");
}

#[test]
fn what_a_program_used_is_known_once_it_was_waited_for() {
    let mut child = sh("x=$(head -c 8388608 /dev/zero | tr '\\0' x); exit 3")
        .spawn()
        .unwrap();
    assert_eq!(child.usage(), None);
    child.release().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let usage = child.usage().unwrap();
    assert!(usage.max_rss > 8 << 20, "{usage:?}");
    assert!(usage.minor_faults > 1000, "{usage:?}");
    assert!(!(usage.user + usage.system).is_zero());
}

#[test]
fn a_silent_program_has_no_terminal() {
    let all = "for fd in 0 1 2; do [ /proc/self/fd/$fd -ef /dev/null ] || exit $((fd + 1)); done";
    assert_eq!(run(&sh(all).silent(true)), Some(0));
}

#[test]
fn stdout_can_go_where_stderr_goes() {
    let same = "[ /proc/self/fd/1 -ef /proc/self/fd/2 ]";
    let separate = format!("exec 2>/dev/null; {same}");
    assert_eq!(run(&sh(same).stdout_to_stderr(true)), Some(0));
    assert_eq!(run(&sh(&separate).stdout_to_stderr(false)), Some(1));
}

#[test]
fn nothing_runs_before_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    let mut child = sh("touch \"$FILE\"").env("FILE", &file).spawn().unwrap();
    assert!(child.try_wait().unwrap().is_none());
    assert!(!file.exists());
    child.release().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(file.exists());
}

#[test]
fn a_missing_program_is_enoent() {
    for program in ["no-such-program-here", "/no/such/program", ""] {
        let mut child = Launcher::new(program).spawn().unwrap();
        let error = child.release().unwrap_err();
        assert_eq!(error.errno, Errno::NOENT, "{program}");
        assert_eq!(error.exit_code(), 127);
        assert!(error.to_string().contains(program));
        assert_eq!(child.wait().unwrap().code(), Some(127));
    }
}

#[test]
fn a_file_that_may_not_be_run_is_eacces() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tool");
    std::fs::write(&file, "echo").unwrap();
    let error = Launcher::new(&file).spawn().unwrap().release().unwrap_err();
    assert_eq!((error.errno, error.exit_code()), (Errno::ACCESS, 126));
    // The PATH search keeps this error.
    let path = format!("/nowhere:{}:/nowhere2", folder.path().display());
    let found = Launcher::new("tool").env("PATH", path);
    let error = found.spawn().unwrap().release().unwrap_err();
    assert_eq!(error.errno, Errno::ACCESS);
}

/// Writes a file in a separate process. Otherwise, children of other tests may inherit the open
/// descriptor, and executing the file fails meanwhile.
fn write(file: &std::path::Path, text: &str) {
    let script = sh("printf %s \"$TEXT\" > \"$FILE\"");
    assert_eq!(run(&script.env("FILE", file).env("TEXT", text)), Some(0));
}

#[test]
fn a_script_without_first_line_runs_in_sh() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    write(&file, "exit $1\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&Launcher::new(&file).arg("5")), Some(5));
}

#[test]
fn the_environment_is_inherited_with_changes() {
    let told = sh("test \"$A\" = 1 && test -z \"$B\" && test -n \"$PATH\"");
    assert_eq!(
        run(&told.env("A", "0").env("A", "1").env_remove("B")),
        Some(0)
    );
}

#[test]
fn sigpipe_kills_and_nothing_is_blocked_or_handled() {
    // SigBlk, SigCgt, and SIGPIPE (bit 12 of SigIgn) are clear in the program.
    let script = "while read name bits; do case $name in \
        SigBlk:|SigCgt:) test $((0x$bits)) -eq 0 || exit 1;; \
        SigIgn:) test $((0x$bits & 0x1000)) -eq 0 || exit 2;; esac; done < /proc/$$/status";
    // dash installs its own handlers.
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("status");
    let mut child = sh("exec cat /proc/self/status > \"$OUT\"")
        .env("OUT", &out)
        .spawn()
        .unwrap();
    child.release().unwrap();
    assert!(child.wait().unwrap().success());
    let check = sh(&script.replace("/proc/$$/status", "\"$OUT\"")).env("OUT", &out);
    assert_eq!(
        run(&check),
        Some(0),
        "{}",
        std::fs::read_to_string(&out).unwrap()
    );
}

#[test]
fn no_descriptor_of_ours_leaks_into_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("fds");
    let other = sh("exit").spawn().unwrap();
    let list = sh("exec readlink /proc/self/fd/* > \"$OUT\"").env("OUT", &out);
    let mut child = list.spawn().unwrap();
    child.release().unwrap();
    child.wait().unwrap();
    let listed = std::fs::read_to_string(&out).unwrap();
    for ours in ["perf_event", "pidfd", "eventfd"] {
        assert!(!listed.contains(ours), "{listed}");
    }
    drop(other);
}

#[test]
fn dropping_unstarted_ends_the_child() {
    let first = sh("exit").spawn().unwrap();
    let second = sh("exit").spawn().unwrap();
    let pids = [first.pid(), second.pid()];
    drop(first);
    drop(second);
    for pid in pids.map(|pid| Pid::from_raw(pid).unwrap()) {
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH));
    }
}

#[test]
fn waiting_for_the_end_or_for_something_else() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut child = sh("exec sleep 100").spawn().unwrap();
    child.release().unwrap();
    let short = Some(Duration::from_millis(1));
    assert_eq!(
        child.wait_or(Some(read.as_fd()), short).unwrap(),
        WaitOutcome::Timeout
    );
    drop(write);
    assert_eq!(
        child.wait_or(Some(read.as_fd()), None).unwrap(),
        WaitOutcome::Other
    );
    child.signal(libc::SIGKILL).unwrap();
    let WaitOutcome::Exited(status) = child.wait_or(None, None).unwrap() else {
        panic!("the program has ended");
    };
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    // The same without a pidfd.
    let mut child = sh("exit 3").spawn().unwrap();
    child.without_pidfd();
    child.release().unwrap();
    let waited = child.wait_or(None, None).unwrap();
    assert!(matches!(waited, WaitOutcome::Exited(status) if status.code() == Some(3)));
}

#[test]
fn a_zero_byte_is_refused() {
    let error = Launcher::new("echo").arg("a\0b").spawn().unwrap_err();
    assert!(matches!(error, LaunchError::ZeroByte { .. }));
}
