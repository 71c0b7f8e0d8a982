//! A recorder with file capabilities, which any user may run.

use super::neighbour::{NOBODY, Neighbour, set_mode};
use crate::support::{Here, needs};

#[test]
fn capabilities_do_not_copy_programs_of_other_users() {
    needs!(PerfEvents, Root, Tool("setpriv"), File("/usr/sbin/setcap"));
    let here = Here::new();
    let neighbour = Neighbour::new(&here);
    let rprof = neighbour.path("rprof");
    here.command("cp")
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg(&rprof)
        .ok();
    let set = here
        .command("setcap")
        .arg("cap_perfmon,cap_sys_ptrace=ep")
        .arg(&rprof)
        .run();
    if set.code() != Some(0) {
        crate::support::inapplicable("the file system has no capabilities of files");
        return;
    }
    // A world-readable program in a folder that only its owner may search.
    let private = neighbour.path("private");
    std::fs::create_dir(&private).unwrap();
    here.command("cp")
        .arg(neighbour.path("mallory"))
        .arg(private.join("program"))
        .ok();
    set_mode(&private, 0o700);
    std::os::unix::fs::chown(&private, Some(4242), Some(4242)).unwrap();
    let other = here
        .command("setpriv")
        .words("--reuid 4242 --regid 4242 --clear-groups");
    let other = other.arg(private.join("program")).words("spin 60");
    let mut other = other.start();
    let pid = other.line();
    let data = neighbour.path("theirs/perf.data");
    let record = here.command("setpriv").words(NOBODY).arg(&rprof);
    let record = record
        .words("record -v --keep all -F 999 -e cpu-clock -d 0.5 -o")
        .arg(&data);
    let run = record.arg("-p").arg(pid.trim()).ok();
    let header = here.rprof("header -i").arg(&data).ok();
    header.prints("private/program");
    let kept = header
        .out()
        .lines()
        .any(|line| line.starts_with("kept") && line.contains("private"));
    assert!(!kept, "{header}{run}");
    other.signal(rustix::process::Signal::KILL);
    other.end();
}
