//! Files of recorded programs are not kept open: file systems can be unmounted, and deleted files
//! free their space.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Here, Running, c, measured, needs, wait_until};

/// Mounts a file system, runs a program there, and prints the status of umount(8).
const MOUNTED: &str = "
    mkdir -p \"$1\" && mount -t tmpfs none \"$1\" && cp \"$2\" \"$1/app\" || exit 99
    \"$1/app\" $3
    umount \"$1\"; echo umount=$?
    umount -l \"$1\" 2> /dev/null; :
";

/// Returns open or mapped files and folders.
fn in_use_below(pid: u32, folder: &Path) -> Vec<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let links = ["fd", "map_files"].map(|list| std::fs::read_dir(process.join(list)));
    let links = links.into_iter().flatten().flatten().flatten();
    links
        .filter_map(|link| std::fs::read_link(link.path()).ok())
        .filter(|path| path.starts_with(folder))
        .collect()
}

fn number(running: &Running) -> u32 {
    running.pid().as_raw_nonzero().get() as u32
}

fn check_names(here: &Here, what: &str) -> Result<(), String> {
    let report = here.report("--comm app --event cpu-clock");
    let share = report.only().total_share("burn_seventy");
    match share > 0.4 {
        true => Ok(()),
        false => Err(format!("{what}: {share}")),
    }
}

#[test]
fn mount_of_a_program_can_be_taken_away_while_its_parent_is_recorded() {
    needs!(PerfEvents, Root);
    for options in [
        "",
        "--call-graph fp",
        "--call-graph none",
        "--off-cpu",
        "-a",
        "--keep none",
        "--keep all",
    ] {
        measured(|| {
            let here = Here::new();
            let record = here.rprof("record -q -F 999 -e cpu-clock").words(options);
            let record = record.words("-- sh -c").arg(MOUNTED).arg("sh");
            let record = record.arg(here.path("mounted")).arg(c("shares.c"));
            record.arg("0.5").ok().prints("umount=0");
            match options {
                "--keep none" => Ok(()),
                _ => check_names(&here, options),
            }
        });
    }
}

#[test]
fn mount_of_a_program_can_be_taken_away_beside_a_recording() {
    needs!(PerfEvents, Root);
    for command in [
        "record -q -F 999 -e cpu-clock -a",
        "record -q -F 999 -e cpu-clock -a --call-graph fp",
        "top -q -F 999 -d 0.2 -n 1000 -E 1 --format json",
    ] {
        let here = Here::new();
        let rprof = here.rprof(command).start();
        wait_until("it records", || {
            let maps = std::fs::read_dir(format!("/proc/{}/task", number(&rprof)));
            maps.is_ok_and(|threads| threads.count() > 2)
        });
        let folder = here.path("mounted");
        for seconds in ["0.02", "0.5"] {
            let neighbour = here.command("sh").arg("-c").arg(MOUNTED).arg("sh");
            let neighbour = neighbour.arg(&folder).arg(c("shares.c")).arg(seconds);
            neighbour.ok().prints("umount=0");
        }
        rprof.signal(Signal::INT);
        rprof.end();
    }
}

#[test]
fn files_that_were_deleted_are_not_in_use_once_their_programs_have_ended() {
    needs!(PerfEvents);
    for command in [
        "record -q -F 999 -e cpu-clock -o out.data",
        "record -q -F 999 -e cpu-clock --off-cpu -o out.data",
        "top -q -F 999 -e cpu-clock -d 0.2 -n 1000 -E 1 --format json",
    ] {
        let here = Here::new();
        let folder = here.path("programs");
        std::fs::create_dir(&folder).unwrap();
        here.copy(&c("shares.c"), "programs/one");
        here.copy(&c("jit.c"), "programs/two");
        let script = "programs/one 0.4; programs/two dump 0.4 \"$1\"; rm -r programs; \
            echo $$ >pid; exec sleep 60";
        let rprof = here.rprof(command).words("-- sh -c").arg(script);
        let rprof = rprof.arg("sh").arg(&folder).start();
        let pid = || {
            std::fs::read_to_string(here.path("pid"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        wait_until("the files are deleted", || pid().is_some());
        let command = pid().and_then(Pid::from_raw).expect("a process");
        // The kernel appends to the path of a deleted file.
        wait_until("no file of it is in use", || {
            in_use_below(number(&rprof), &folder).is_empty()
        });
        kill_process(command, Signal::TERM).expect("it sleeps");
        rprof.end();
    }
}
