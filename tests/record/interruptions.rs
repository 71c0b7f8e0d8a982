//! Interrupted recordings: full disks, closed pipes, job control, limits. The command must not be
//! disturbed, and the file must be readable.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Here, Need, Run, c, has, needs, perf_samples, wait_until};

/// rprof and perf see the same samples.
fn samples_by_both(here: &Here, file: &str) -> u64 {
    let script = here.rprof("script -i").arg(file).ok();
    let samples = perf_samples(&script).len();
    if has(Need::Perf) {
        let perf = here.perf("script --no-inline -i").arg(file).run();
        assert_eq!(perf_samples(&perf).len(), samples, "samples by\n{perf}");
    }
    samples as u64
}

fn end(pid: &str) {
    if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::KILL).ok();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_command() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    std::fs::create_dir(here.path("full")).unwrap();
    // The file system is in the shell's mount namespace, and ends with it.
    let script = "mount -t tmpfs -o size=256k none full || exit 99
        \"$0\" record -F 20000 -g -e cpu-clock -o full/perf.data -- sh -c '\"$0\" 1; echo ended; exit 5' \"$1\"
        echo status $?
        cp full/perf.data perf.data";
    let run = here
        .command("unshare")
        .words("-m sh -c")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg(c("shares.c"))
        .ok();
    run.prints("ended\nstatus 1\n");
    run.says("full/perf.data")
        .says("No space left")
        .says("can be read");
    assert!(samples_by_both(&here, "perf.data") > 100, "{run}");
}

#[test]
fn a_reader_that_goes_away_ends_the_recording_and_not_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "\"$0\" record -F 20000 -e cpu-clock -o - -- sh -c '\"$0\" 0.5; echo ended >&2; exit 5' \"$1\" \
                  | head -c 1000 >/dev/null; echo ${PIPESTATUS[0]}";
    let run = here
        .command("bash")
        .arg("-c")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg(c("shares.c"))
        .ok();
    run.prints("5\n").says("ended");
    assert!(!run.err().contains("roken pipe"), "quietly: {run}");
}

#[test]
fn processes_that_outlive_the_command_are_named() {
    needs!(PerfEvents);
    let here = Here::new();
    // A daemon in another session, without the command's files.
    let script = "setsid \"$0\" >pid </dev/null 2>/dev/null & \
                  until [ -s pid ]; do sleep 0.01; done; exit 5";
    let run = (here
        .rprof("record -F 999 -g -e cpu-clock -- sh -c")
        .arg(script))
    .arg(c("endless.c"))
    .exits(5);
    let pid = std::fs::read_to_string(here.path("pid")).unwrap();
    end(&pid);
    let line = format!(
        "1 process started by the command still runs and is no longer recorded: {}",
        pid.trim()
    );
    run.says(&line);
    let report = here.report("--sort comm,symbol");
    let found = report
        .only()
        .rows
        .iter()
        .any(|r| r.symbol == "work_on" && r.comm == "endless");
    assert!(found, "{run}");
}

#[test]
fn processes_that_others_started_are_not_the_commands() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "until [ -e go ]; do sleep 0.01; done
        setsid \"$0\" </dev/null >/dev/null 2>&1 & echo $! >pid; echo; wait";
    let mut other = (here.command("sh").arg("-c").arg(script))
        .arg(c("endless.c"))
        .start();
    let record = format!(
        "record -F 99 -e cpu-clock -p {} -- sh -c",
        other.pid().as_raw_nonzero()
    );
    let run = (here.rprof(&record))
        .arg("touch go; until [ -s pid ]; do sleep 0.01; done")
        .ok();
    other.line();
    end(&std::fs::read_to_string(here.path("pid")).unwrap());
    assert!(!run.err().contains("still run"), "{run}");
}

#[test]
fn a_command_that_leaves_no_process_gets_no_note() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -- sh -c")
        .arg("/bin/true & /bin/true | cat; wait")
        .ok();
    assert!(!run.err().contains("still run"), "{run}");
}

#[test]
fn a_command_that_execs_is_followed() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("record -F 999 -g -e cpu-clock -- sh -c")
        .arg("exec sh -c 'exec \"$0\" 0.3' \"$0\"")
        .arg(c("shares.c"))
        .ok();
    let report = here.report("--sort comm,symbol");
    let row = report
        .only()
        .rows
        .iter()
        .find(|r| r.symbol == "burn_seventy");
    assert_eq!(row.map(|r| &r.comm[..]), Some("shares"), "{run}");
}

#[test]
fn a_command_may_close_all_its_files() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -F 999 -g -e cpu-clock --")
        .arg(c("closer.c"))
        .arg("0.3")
        .exits(7);
    assert!(here.report("").only().total_share("work_in_the_dark") > 0.5);
}

#[test]
fn the_terminal_is_as_it_was_after_a_command_was_killed() {
    needs!(PerfEvents, Terminal);
    let here = Here::new();
    // script provides a terminal. The command changes its mode and dies.
    let inner = format!(
        "stty -a >before; {} record -q -- sh -c 'stty raw -echo; kill -KILL $$'; echo $? >status; stty -a >after",
        env!("CARGO_BIN_EXE_rprof")
    );
    here.command("script")
        .words("-qec")
        .arg(inner)
        .arg("/dev/null")
        .ok();
    let read = |name| std::fs::read_to_string(here.path(name)).unwrap();
    assert_eq!(read("status"), "137\n");
    assert_eq!(read("after"), read("before"));
    let inner = format!(
        "{} record -q -- stty -echo; stty -a >after",
        env!("CARGO_BIN_EXE_rprof")
    );
    here.command("script")
        .words("-qec")
        .arg(inner)
        .arg("/dev/null")
        .ok();
    assert!(read("after").contains("-echo "));
}

#[test]
fn job_control_stops_and_continues_rprof_and_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut job = (here.rprof("record -F 999 -g -e cpu-clock --"))
        .arg(c("endless.c"))
        .job()
        .start();
    let command: i32 = job.line().parse().expect("the number of a process");
    let is_stopped = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    };
    let group = job.pid();
    let rprof = group.as_raw_nonzero().get();
    let to_all = |signal| rustix::process::kill_process_group(group, signal).unwrap();
    to_all(Signal::TSTP);
    wait_until("both are stopped", || {
        is_stopped(rprof) && is_stopped(command)
    });
    to_all(Signal::CONT);
    wait_until("both go on", || !is_stopped(rprof) && !is_stopped(command));
    to_all(Signal::INT);
    let run = job.end();
    run.exits(130).says("samples of cpu-clock");
    assert!(samples_by_both(&here, "perf.data") > 0);
}

/// A process's environment that its parent determines: variables, nice value, signals, files,
/// limits, terminal, without HOME.
const SURROUNDINGS: &str = "env | grep -v -e '^_=' -e '^HOME=' | sort; \
    grep -E 'Sig(Ign|Blk|Cgt)|NoNewPrivs|Cpus_allowed_list|Cap' /proc/self/status; \
    cat /proc/self/oom_score_adj /proc/self/limits /proc/self/personality; \
    ls -l /proc/self/fd | wc -l; cut -d' ' -f 5,6,7,18,19 /proc/$$/stat; umask; pwd; ulimit -a";

#[test]
fn the_command_sees_what_it_would_see_without() {
    needs!(PerfEvents);
    let here = Here::new();
    // Process group, session and terminal are fields 5 to 7 of stat.
    let bare = here.sh(SURROUNDINGS).ok().out();
    for options in ["-q", "-q -a", "-q -D 1", "-q --switch-output=1G", "-q -g"] {
        let options = match options {
            "-q -a" if !has(Need::Kernel) => continue,
            options => options,
        };
        let run = (here.rprof("record").words(options).arg("--"))
            .words("sh -c")
            .arg(SURROUNDINGS)
            .ok();
        // Only the process group leader differs.
        let same = |text: &str| -> Vec<String> {
            let is_number = |word: &str| word.parse::<i64>().is_ok();
            let is_stat =
                |line: &&str| line.split(' ').count() == 5 && line.split(' ').all(is_number);
            let lines = text.lines().filter(|line| !is_stat(line));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(same(&run.out()), same(&bare), "with {options}: {run}");
    }
}

#[test]
fn max_size_ends_the_recording_and_not_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = (here.rprof("record -F 20000 -g -e cpu-clock --max-size 64K -- sh -c"))
        .arg("\"$0\" 1; exit 5")
        .arg(c("shares.c"))
        .exits(5);
    run.says("--max-size is reached");
    let header: serde_json::Value =
        serde_json::from_slice(here.rprof("header --format json").ok().bytes()).unwrap();
    let bytes = header["data_bytes"].as_u64().unwrap();
    assert!(
        bytes <= 65 << 10 && bytes > 32 << 10,
        "{bytes} bytes of records by\n{run}"
    );
    assert!(samples_by_both(&here, "perf.data") > 100);
}

#[test]
fn duration_ends_the_recording_and_not_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    // The command runs until the recording is finished.
    let run = (here.rprof("record -F 999 -e cpu-clock -d 0.2 -- sh -c"))
        .arg("\"$0\" 0.1; until [ -e go ]; do sleep 0.01; done; exit 5")
        .arg(c("shares.c"))
        .start();
    wait_until("the file is finished", || here.is_finished());
    std::fs::write(here.path("go"), "").unwrap();
    let run = run.end();
    run.exits(5)
        .says("the recording time is over; the command continues");
    assert!(samples_by_both(&here, "perf.data") > 0, "{run}");
}

#[test]
fn a_delay_leaves_out_samples_and_not_mappings() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut rprof = (here.rprof("record -F 999 -g -e cpu-clock -D 500 --"))
        .arg(c("endless.c"))
        .start();
    rprof.line();
    wait_until("samples are in the file", || here.samples_so_far() > 100);
    rprof.signal(Signal::TERM);
    let run = rprof.end();
    let report = here.report("");
    // The report uses mappings from before the first sample.
    let event = report.only();
    assert!(event.self_share("work_on") > 0.4, "{run}");
    // Time counts from the successful exec, possibly slightly before its record.
    let began = here.rprof("script -F comm,time --show-task-events").ok();
    let time = |line: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok())
    };
    let out = began.out();
    let is_exec = |line: &&str| line.contains("PERF_RECORD_COMM exec: endless");
    let exec = out.lines().find(is_exec).and_then(time);
    let is_sample = |line: &&str| !line.contains("PERF_RECORD_") && !line.trim().is_empty();
    let first = out.lines().find(is_sample).and_then(time);
    let (exec, first) = exec.zip(first).unwrap_or_else(|| panic!("{began}"));
    assert!(first - exec > 0.05, "{exec} and {first} in\n{began}");
}

#[test]
fn a_failed_recording_leaves_no_files() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    std::fs::create_dir(here.path("full")).unwrap();
    std::fs::write(here.path("old"), "precious").unwrap();
    let script = "mount -t tmpfs -o size=8k none full || exit 99
        cp old full/perf.data; dd if=/dev/zero of=full/rest bs=1k 2>/dev/null
        \"$0\" record -o full/perf.data -- touch ran; echo $?; cat full/perf.data";
    let run: Run = here
        .command("unshare")
        .words("-m sh -c")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .ok();
    run.prints("1\nprecious").says("No space left");
    assert!(!Path::new(&here.path("ran")).exists(), "{run}");
}
