//! Attaching to running targets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::support::{Here, Running, Shell, c, c_with, check, measured, needs, skip, wait_until};

fn endless(here: &Here) -> Running {
    let mut running = here.command(c("endless.c")).start();
    running.line();
    running
}

fn number(running: &Running) -> u32 {
    running.pid().as_raw_nonzero().get() as u32
}

fn by_thread(here: &Here) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (tid, _) in samples(here) {
        *counts.entry(tid).or_default() += 1;
    }
    counts
}

/// A task that has already exited has thread -1.
fn samples(here: &Here) -> Vec<(u32, u64)> {
    let run = here.rprof("script -G --ns -F tid,time").ok();
    let parse = |line: &str| {
        let (tid, time) = line.trim().split_once(char::is_whitespace)?;
        let (seconds, rest) = time.trim().trim_end_matches(':').split_once('.')?;
        let seconds: u64 = seconds.parse().ok()?;
        Some((
            tid.parse::<i32>().ok()?.cast_unsigned(),
            seconds * 1_000_000_000 + rest.parse::<u64>().ok()?,
        ))
    };
    let lines = run.out();
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("{line:?}")))
        .collect()
}

fn assert_all_mapped(here: &Here) {
    let quality = here.report("").quality;
    let unmapped = &quality["frames"]["unnamed_by_reason"]["unmapped"];
    assert!(unmapped.is_null(), "{quality:#}");
}

/// CPU time of each thread at clock times.
type Moments = BTreeMap<u32, Vec<(u64, u64)>>;

fn moments(path: &Path) -> Moments {
    let text = std::fs::read_to_string(path).expect("what the crowd did");
    let mut moments = Moments::new();
    for line in text.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        moments
            .entry(words[0] as u32)
            .or_default()
            .push((words[1], words[2]));
    }
    moments
}

#[test]
fn threads_born_during_attach_are_recorded_once() {
    needs!(PerfEvents);
    measured(record_a_crowd);
}

/// Reciprocal of the share of threads that may be missed: lost samples or a stalled machine.
const FEW: usize = 50;

fn record_a_crowd() -> Result<(), String> {
    const PERIOD: u64 = 50_000;
    // Only threads that ran for this many periods must have samples.
    const ENOUGH: u64 = 15;
    let here = Here::new();
    let plugin = c_with("plugin.c", &["-shared", "-fPIC"]);
    let plugins: Vec<PathBuf> = (0..20)
        .map(|i| {
            let copy = here.path(format!("plugin{i}.so"));
            std::fs::copy(&plugin, &copy).unwrap();
            copy
        })
        .collect();
    let done = here.path("moments");
    let mut crowd = here.command(c("crowd.c")).arg(&done).words("200 2");
    for plugin in &plugins {
        crowd = crowd.arg(plugin);
    }
    let mut crowd = crowd.start();
    assert_eq!(crowd.line(), "ready");
    here.rprof(&format!(
        "record -q --no-call-graph -e cpu-clock -c {PERIOD} -d 4 -p {}",
        number(&crowd)
    ))
    .ok();
    crowd.signal(Signal::TERM);
    crowd.end().exits(0);
    assert_all_mapped(&here);

    let (moments, samples) = (moments(&done), samples(&here));
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (tid, time) in &samples {
        times.entry(*tid).or_default().push(*time);
    }
    // Events start and stop one by one, which takes a while on a busy machine.
    const EDGE: u64 = 1_000_000_000;
    let (first, last) = match (samples.first(), samples.last()) {
        (Some((_, first)), Some((_, last))) => (*first + EDGE, *last - EDGE),
        _ => panic!("no samples"),
    };
    assert!(first < last);
    let (mut threads, mut missing, mut all_expected, mut all_counted) = (0, Vec::new(), 0, 0);
    let (mut all_in_motion, longest_moment) = (0, 1_000_000);
    for (tid, moments) in &moments {
        let within: Vec<_> = (moments.iter())
            .filter(|(t, _)| (first..=last).contains(t))
            .collect();
        let (Some((begin, cpu)), Some((end, cpu_at_end))) = (within.first(), within.last()) else {
            continue;
        };
        let expected = (cpu_at_end - cpu) / PERIOD;
        let moments = within.windows(2).map(|pair| pair[1].1 - pair[0].1);
        let in_motion: u64 = moments.map(|cpu| cpu.min(longest_moment)).sum();
        let in_motion = in_motion / PERIOD;
        all_in_motion += in_motion;
        let of_thread = times.get(tid).map(Vec::as_slice).unwrap_or_default();
        let counted = of_thread
            .iter()
            .filter(|t| (begin..=end).contains(t))
            .count() as u64;
        threads += 1;
        all_expected += expected;
        all_counted += counted;
        // The timer fires once in each period of running time. Twice would mean two events.
        assert!(
            counted <= expected * 3 / 2 + 3,
            "{tid}: {counted} for {expected} periods"
        );
        if counted == 0 && in_motion >= ENOUGH {
            missing.push(*tid);
        }
    }
    println!(
        "{threads} threads worked, {} were missed; {all_counted} samples for {all_expected} periods",
        missing.len()
    );
    check(threads >= 50, || format!("{threads} threads worked"))?;
    check(missing.len() * FEW <= threads, || {
        format!("missed {missing:?}")
    })?;
    // In a stall of a virtual machine, the thread's clock goes on and the timer fires once. So time
    // counts only up to several times a step's normal duration.
    check(all_counted * 2 >= all_in_motion, || {
        format!("{all_counted} samples for {all_in_motion} periods")
    })?;
    let strangers: Vec<_> = times
        .keys()
        .filter(|tid| !moments.contains_key(tid))
        .collect();
    assert!(
        strangers.len() <= 3,
        "{strangers:?} but for the first thread and the starters"
    );
    Ok(())
}

#[test]
fn an_attached_thread_is_recorded_alone() {
    needs!(PerfEvents);
    let here = Here::new();
    let threads = here.command(c("threads.c")).arg("100").start();
    let folder = format!("/proc/{}/task", number(&threads));
    let mut found = None;
    wait_until("the thread is there", || {
        let tasks = std::fs::read_dir(&folder).unwrap();
        let mut tids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
        found = tids.find(|tid| {
            let comm = std::fs::read_to_string(format!("{folder}/{tid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == "busy-left")
        });
        found.is_some()
    });
    let tid: u32 = found.unwrap().parse().unwrap();
    here.rprof(&format!("record -q -e cpu-clock -F 999 -d 0.5 -t {tid}"))
        .ok();
    let counts = by_thread(&here);
    assert_eq!(counts.keys().collect::<Vec<_>>(), [&tid]);
    let comms = here.rprof("script -G -F comm").ok().out();
    assert!(comms.lines().all(|line| line.trim() == "busy-left"));
    assert_all_mapped(&here);
    threads.signal(Signal::KILL);
    threads.end();
}

#[test]
fn several_attached_processes_are_recorded_until_the_last_ends() {
    needs!(PerfEvents);
    let here = Here::new();
    let (one, two) = (endless(&here), endless(&here));
    let pids = [number(&one), number(&two)];
    let recording = (here.rprof(&format!(
        "record -e cpu-clock -F 999 -p {},{},4194303",
        pids[0], pids[1]
    )))
    .start();
    wait_until("there is a file with samples", || {
        here.samples_so_far() > 200
    });
    for program in [one, two] {
        program.signal(Signal::KILL);
        program.end();
    }
    let run = recording.end();
    run.exits(0).says("4194303");
    let counts = by_thread(&here);
    assert_eq!(counts.keys().copied().collect::<BTreeSet<_>>(), pids.into());
    assert_all_mapped(&here);
}

#[test]
fn attaching_to_a_process_that_is_gone_is_refused() {
    needs!(PerfEvents);
    let here = Here::new();
    for target in ["-p 4194303", "-t 4194303"] {
        let run = here.rprof(&format!("record {target}")).exits(1);
        run.says("4194303").says("ps -eLf");
        assert!(!here.path("perf.data").exists());
    }
}

#[test]
fn the_whole_system_is_recorded_while_a_command_runs() {
    needs!(Kernel);
    let here = Here::new();
    let program = endless(&here);
    here.rprof("record -q -e cpu-clock -F 999 -a -- sleep 0.5")
        .ok();
    let counts = by_thread(&here);
    assert!(counts.contains_key(&number(&program)), "{counts:?}");
    let comms = here.rprof("script -G -F comm,tid").ok().out();
    assert!(comms.lines().any(|line| line.trim().starts_with("endless")));
    // A numeric name means a missing one.
    let mut names = comms.lines().map(str::trim);
    assert!(
        !names.any(|line| line.starts_with(':') && !line.starts_with(":-1")),
        "{comms}"
    );
    program.signal(Signal::KILL);
    program.end();
}

fn cgroup_mount() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.find(|words| words.get(2) == Some(&"cgroup2"))?;
    Some(PathBuf::from(found[1]))
}

#[test]
fn a_control_group_is_recorded_alone() {
    needs!(Kernel);
    let here = Here::new();
    let name = format!("rprof-test-{}", std::process::id());
    let Some(group) = cgroup_mount().map(|mount| mount.join(&name)) else {
        return skip("needs cgroup v2, mounted");
    };
    if std::fs::create_dir_all(group.join("below")).is_err() {
        return skip("needs the right to make a control group");
    }
    let (inside, outside) = (endless(&here), endless(&here));
    std::fs::write(
        group.join("below/cgroup.procs"),
        number(&inside).to_string(),
    )
    .unwrap();
    let run = (here.rprof("record -q -e cpu-clock -F 999 -d 0.5 -G"))
        .arg(format!("{name},{name}/below"))
        .run();
    let missing = here.rprof("record -d 0.1 -G no-such-group").run();
    for program in [inside, outside] {
        program.signal(Signal::KILL);
        let pid = number(&program);
        program.end();
        if group.exists() && run.code() == Some(0) {
            let counts = by_thread(&here);
            println!("{pid}: {counts:?}");
        }
    }
    wait_until("the group is empty", || {
        std::fs::remove_dir(group.join("below")).is_ok()
    });
    std::fs::remove_dir(&group).unwrap();
    run.exits(0);
    missing.exits(1).says("no-such-group");
    let counts = by_thread(&here);
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert_all_mapped(&here);
}

#[test]
fn a_user_is_recorded_alone() {
    needs!(Kernel);
    let here = Here::new();
    const USER: u32 = 64_321;
    let as_user = |program: PathBuf| -> Shell {
        let shell = here.command("setpriv");
        shell
            .words(&format!("--reuid {USER} --clear-groups"))
            .arg(program)
    };
    let program = here.copy(&c("endless.c"), "endless");
    if as_user("true".into()).run().code() != Some(0) {
        return skip("needs the right to become another user");
    }
    let mut run_by_user = as_user(program).start();
    run_by_user.line();
    let other = endless(&here);
    here.rprof(&format!("record -q -e cpu-clock -F 999 -d 0.5 -u {USER}"))
        .ok();
    let counts = by_thread(&here);
    assert_eq!(counts.keys().collect::<Vec<_>>(), [&number(&run_by_user)]);
    assert_all_mapped(&here);
    for program in [run_by_user, other] {
        program.signal(Signal::KILL);
        program.end();
    }
    here.rprof(&format!("record -u {USER}"))
        .exits(1)
        .says("user 64321");
}

#[test]
fn an_attached_process_that_execs_and_forks_is_followed() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = here.path("again.sh");
    let text = "sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i+1)); done' &\n\
                i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; wait; exec sh \"$0\"\n";
    std::fs::write(&script, text).unwrap();
    let program = here.command("sh").arg(&script).start();
    for _ in 0..5 {
        here.rprof(&format!(
            "record -q -e cpu-clock -F 5000 -d 0.3 -p {}",
            number(&program)
        ))
        .ok();
        assert_all_mapped(&here);
        let comms = here.rprof("script -G -F comm").ok().out();
        assert!(
            !comms.lines().any(|line| line.trim().starts_with(':')),
            "{comms}"
        );
    }
    program.signal(Signal::KILL);
    program.end();
}

/// As in perf: the ids in `top -H` are tids.
#[test]
fn pid_option_takes_a_threads_id_for_its_process() {
    needs!(PerfEvents);
    let here = Here::new();
    let threads = here.command(c("threads.c")).arg("20").start();
    let pid = number(&threads);
    let task = PathBuf::from(format!("/proc/{pid}/task"));
    let ids = || -> Vec<u32> {
        let entries = std::fs::read_dir(&task).expect("it runs").flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id| *id != pid).collect()
    };
    wait_until("both threads run", || ids().len() == 2);
    let tid = ids()[0];
    let remark =
        format!("{tid} is a thread of process {pid} (threads): all threads of the process are");

    let record = here.rprof(&format!("record -F 999 -e cpu-clock -d 0.5 -p {tid}"));
    record.ok().says(&remark);
    assert_all_mapped(&here);
    let report = here.report("");
    for name in ["work_left", "work_right"] {
        assert!(report.only().total_share(name) > 0.1, "{name}");
    }
    let both = here.rprof(&format!("record -q -e cpu-clock -d 0.2 -p {tid},{pid}"));
    both.ok();
    assert_all_mapped(&here);

    let draw = here.rprof(&format!(
        "flamegraph -e cpu-clock -d 0.5 -o out.svg -p {tid}"
    ));
    draw.ok().says(&remark);
    let svg = std::fs::read_to_string(here.path("out.svg")).unwrap();
    assert!(svg.contains("work_left") && svg.contains("work_right"));
    let page = here.rprof(&format!("html -e cpu-clock -d 0.5 -o out.html -p {tid}"));
    page.ok().says(&remark);

    let top = here
        .rprof(&format!(
            "top -q -e cpu-clock -d 0.5 -n 1 --format json -p {tid}"
        ))
        .ok();
    assert!(top.out().contains("work_left") && top.out().contains("work_right"));

    let stat = here
        .rprof(&format!(
            "stat -e task-clock:u --timeout 300 --per thread -p {tid}"
        ))
        .ok();
    stat.says(&remark);
    for thread in ids() {
        stat.says(&format!("thread {thread}"));
    }
    threads.signal(Signal::KILL);
    threads.end();
}

#[test]
fn processes_threads_and_cpus_are_targets_of_what_is_recorded_and_filters_of_what_is_read() {
    needs!(PerfEvents);
    let here = Here::new();
    let running = endless(&here);
    let pid = number(&running);
    for command in ["flamegraph -q -o out", "html -q -o out"] {
        for flag in ["-p", "--pid", "-t", "--tid"] {
            let run = here.rprof(command).words(&format!("{flag} {pid} -d 0.3"));
            run.ok().is_clean();
            std::fs::remove_file(here.path("out")).expect("a picture of what was recorded");
        }
        for (wrong, said) in [
            (
                format!("-p {pid} --tid {pid}"),
                "-p and -t cannot be combined",
            ),
            ("--pid 0".to_owned(), "no running process"),
            ("-t=-1".to_owned(), "no running process"),
            (format!("--pid {pid} -G some"), "cannot be used with"),
            (format!("-a --tid {pid}"), "cannot be used with"),
        ] {
            here.rprof(command).words(&wrong).exits(2).says(said);
        }
    }
    here.rprof(&format!("record -q -p {pid} -d 0.3")).ok();
    for command in [
        "report",
        "collapse",
        "script",
        "annotate",
        "export --format pprof -o out",
        "flamegraph -q -o out",
        "html -q -o out",
        "diff perf.data perf.data",
    ] {
        for (flags, matches) in [
            (["-p", "--pid"], pid.to_string()),
            (["-t", "--tid"], pid.to_string()),
            (["-C", "--cpu"], "0-1023".to_owned()),
        ] {
            for flag in flags {
                let input = if command.starts_with("diff") {
                    ""
                } else {
                    "-i perf.data"
                };
                let words = |value: &str| here.rprof(command).words(input).arg(flag).arg(value);
                words(&matches).ok();
                let nothing = if flag == "-C" || flag == "--cpu" {
                    "1023"
                } else {
                    "0"
                };
                words(nothing).exits(1).says("the filters leave no sample");
            }
        }
    }
    // A file may stand before or after the options.
    for line in [
        format!("flamegraph -q -o out perf.data -t {pid} --pid {pid}"),
        format!("html -q -o out -C 0-1023 --tid {pid} perf.data"),
    ] {
        here.rprof(&line).ok();
    }
    here.rprof("flamegraph -o out -i ./perf.data --pid 1 --with-children")
        .exits(2)
        .says("--with-children is for recording, but ./perf.data is read");
    drop(running);
}

#[test]
fn processes_that_proc_does_not_show_are_not_said_to_have_ended() {
    needs!(PerfEvents, Root, Tool("unshare"));
    let here = Here::new();
    let inside = |options: &str, script: &str| {
        let shell = here.command("unshare").words(options).words("sh -c");
        shell.arg(script).arg(env!("CARGO_BIN_EXE_rprof")).run()
    };
    let attach = "sleep 100 & \"$0\" record -d 0.1 -p $!; code=$?; kill $!; exit $code";
    let run = inside("--pid --fork", attach);
    run.exits(1).says("/proc belongs to another PID namespace");
    let without = format!("umount -l /proc; {attach}");
    inside("-m", &without).exits(1).says("/proc is not mounted");
    let run = inside("-m", "umount -l /proc; \"$0\" record -- true");
    run.exits(0).says("/proc is not mounted");
    let work = format!(
        "umount -l /proc; \"$0\" record -a -e cpu-clock -F 499 -- {} 0.3",
        c("shares.c").display()
    );
    let run = inside("-m", &work);
    run.exits(0).says("its file could not be opened");
    assert!(!run.err().contains("no unwind information"), "{run}");
}

/// clock_gettime(2) returns other times there than records have.
#[test]
fn a_recorder_in_a_time_namespace_names_the_code_of_its_targets() {
    needs!(PerfEvents, Root, Kernel, Tool("unshare"));
    for ahead in [100_000, -5] {
        for target in ["-p", "-a"] {
            let here = Here::new();
            let program = endless(&here);
            let target = match target {
                "-p" => format!("-p {}", number(&program)),
                whole => whole.to_owned(),
            };
            let shell = here.command("unshare");
            let shell = shell.words(&format!("-T --monotonic {ahead} --boottime {ahead} --fork"));
            let shell = shell.arg(env!("CARGO_BIN_EXE_rprof"));
            let run = shell
                .words("record -e cpu-clock -F 999 -g -d 0.5")
                .words(&target)
                .ok();
            assert!(!run.err().contains("out of order"), "{run}");
            let report = here.report("--comm endless");
            let share = report.only().self_share("work_on");
            assert!(share > 0.5, "{ahead} {target}: {share}\n{run}");
        }
    }
}
