//! Off-CPU recording (`record --off-cpu`), compared with the program's clocks, and with perf.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Folded, Here, Report, Run, c, c_with, check, folded, measured, needs, skip};

/// Wait reasons by function of the thread.
const REASONS: [(&str, &str); 9] = [
    ("wait_in_nanosleep", "[sleep]"),
    ("wait_in_futex", "[futex]"),
    ("wait_shortly", "[futex]"),
    ("wait_in_epoll", "[poll]"),
    ("wait_in_poll", "[poll]"),
    ("wait_in_pipe", "[pipe]"),
    ("wait_in_socket", "[socket]"),
    ("wait_for_child", "[child]"),
    ("share_a_cpu", "[waiting for a CPU]"),
];

/// Returns the fixture's measurements by function; `lives` is the lifetime of its threads. Without
/// priority, it counts time as waiting in which other processes run.
fn record(here: &Here, options: &str) -> (Run, BTreeMap<String, u64>) {
    let run = (here.command("nice").words("-n -20"))
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .words("record --off-cpu --off-cpu-budget 100 -e cpu-clock -F 999 -g")
        .words(options)
        .arg("--")
        .arg(c("waits.c"))
        .words("20")
        .ok();
    let mut truth = BTreeMap::new();
    for line in run.out().lines() {
        let (name, ns) = line.split_once(' ').expect("a name and a number");
        *truth.entry(name.to_owned()).or_default() += ns.parse::<u64>().expect("nanoseconds");
    }
    (run, truth)
}

fn noted(here: &Here, key: &str) -> u64 {
    noted_as(here, &format!("thread-time.{key}"))
}

pub(super) fn noted_as(here: &Here, key: &str) -> u64 {
    let header = here.rprof("header --format json -i perf.data").ok();
    let header: Value = serde_json::from_slice(header.bytes()).expect("JSON");
    let quality = header["quality"]
        .as_array()
        .expect("what the recorder noted");
    let found = quality.iter().find(|pair| pair[0] == key);
    let text = found.and_then(|pair| pair[1].as_str());
    text.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no {key} in {header:#}"))
}

fn is_within(name: &str, found: u64, truth: u64, share: f64) -> Result<(), String> {
    let off = (found as f64 / truth as f64 - 1.0).abs();
    check(off < share, || format!("{name}: {found} of {truth} ns"))
}

#[test]
fn waits_are_as_long_as_the_program_says() {
    needs!(PerfEvents, Root);
    measured(|| {
        let here = Here::new();
        let (run, truth) = record(&here, "");
        run.says("of offcpu-time").says("waiting for a CPU");
        let waits = here.report("--off-cpu");
        for (function, _) in REASONS {
            let total = waits.only().row(function).total;
            // The kernel counts the context switch itself as on-CPU, about 3 us per wait.
            let share = if function == "wait_shortly" {
                0.1
            } else {
                0.02
            };
            is_within(function, total, truth[function], share)?;
        }
        let convoy = waits.only().row("stand_in_convoy").total;
        is_within("convoy", convoy, truth["stand_in_convoy"], 0.02)?;
        // A disk may respond in 100 us.
        for function in ["wait_for_disk", "wait_for_page"] {
            if truth[function] > 10_000_000 {
                let total = waits.only().row(function).total;
                is_within(function, total, truth[function], 0.1)?;
            }
        }
        let [on, blocked, runnable, unknown] =
            ["on-cpu.ns", "blocked.ns", "runnable.ns", "unknown.ns"].map(|key| noted(&here, key));
        assert_eq!(waits.only().weight, blocked + runnable, "{run}");
        let total = on + blocked + runnable + unknown;
        is_within("all threads", total, truth["lives"], 0.005)?;
        let waits = noted(&here, "waits");
        assert!(waits > 2_000, "{waits} waits\n{run}");
        Ok(())
    });
}

#[test]
fn stacks_end_in_what_was_waited_for() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    record(&here, "");
    let stacks: Folded = folded(&here.rprof("collapse --off-cpu --no-fold-idle -q").ok());
    for (function, reason) in REASONS {
        let (mut all, mut right) = (0, 0);
        for (stack, weight) in &stacks {
            if stack.split(';').any(|frame| frame == function) {
                all += weight;
                right += weight * u64::from(stack.ends_with(reason));
            }
        }
        let share = right as f64 / all as f64;
        assert!(share > 0.8, "{function}: {share} of {all} ns in {reason}");
    }
}

#[test]
fn time_on_cpus_and_waits_are_one_picture() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    record(&here, "");
    let both = here.report("");
    let sum: u64 = both.events.iter().map(|event| event.weight).sum();
    let wall = here.report("--wall");
    assert_eq!(
        (&*wall.only().name, wall.only().weight),
        ("wall-clock", sum)
    );
    here.rprof("flamegraph --wall").ok();
    let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("a picture");
    for text in ["[futex]", "wait_in_pipe", "waiting"] {
        assert!(svg.contains(text), "{text}");
    }
    let shell = here.rprof("flamegraph --off-cpu -o waits.svg -- sleep 0.1");
    shell.ok();
    let svg = std::fs::read_to_string(here.path("waits.svg")).expect("a picture");
    assert!(svg.contains("[sleep]"));
}

#[test]
fn perf_reads_the_same_sums() {
    needs!(PerfEvents, Root, Tool("perf"));
    let here = Here::new();
    record(&here, "");
    let run = here.perf("script -F event,period").ok();
    let mut sum = 0;
    for line in run.out().lines() {
        if let Some((period, "offcpu-time:")) = line.trim().split_once(char::is_whitespace) {
            sum += period.parse::<u64>().expect("a period");
        }
    }
    assert_eq!(sum, here.report("--off-cpu").only().weight);
    here.perf("report --stdio -g none")
        .ok()
        .prints("offcpu-time");
}

pub(super) fn figures(run: &Run) -> BTreeMap<String, u64> {
    let out = run.out();
    let pair = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    out.lines().filter_map(pair).collect()
}

#[test]
fn too_many_switches_are_recorded_in_windows_and_keep_their_shares() {
    needs!(PerfEvents, Root);
    measured(|| {
        let here = Here::new();
        let shell = here.rprof("record --off-cpu --off-cpu-budget 1 -e cpu-clock -g --");
        let run = shell.arg(c("pingpong.c")).words("2000 40").ok();
        run.says("windows, extrapolated");
        let truth = figures(&run);
        let notes = [
            "windows",
            "paused.ns",
            "waits",
            "on-cpu.ns",
            "blocked.ns",
            "runnable.ns",
            "unknown.ns",
        ];
        let [windows, paused, waits, on, blocked, runnable, unknown] =
            notes.map(|key| noted(&here, key));
        assert!(windows >= 2, "{run}");
        let few = waits < truth["switches"] / 4;
        check(few, || format!("{waits} waits of {run}"))?;
        // Two processes for two seconds and a thread for 0.8 s.
        let total = on + blocked + runnable + unknown;
        let lives = 2 * 2_000_000_000 + truth["wait_long"];
        is_within("all threads", total, lives, 0.1)?;
        check(paused < total, || format!("{paused} ns of {total}"))?;
        let report = here.report("--off-cpu");
        assert_eq!(report.only().weight, blocked + runnable, "{run}");
        // Shares are estimates from some sampling windows.
        for function in ["ping", "pong"] {
            let found = report.only().row(function).total;
            is_within(function, found, truth[function], 0.4)?;
        }
        let stacks: Folded = folded(&here.rprof("collapse --off-cpu -q").ok());
        for (stack, weight) in &stacks {
            if stack
                .split(';')
                .any(|frame| frame == "ping" || frame == "pong")
            {
                let leaf = stack.rsplit(';').next().unwrap_or_default();
                let is_its = ["[pipe]", "[waiting for a CPU]"].contains(&leaf);
                check(is_its || *weight < total / 20, || {
                    format!("{weight} in {stack}")
                })?;
            }
        }
        Ok(())
    });
}

#[test]
fn waits_are_in_streams_and_in_each_file_of_several() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let shell = here.rprof(
        "record --off-cpu --off-cpu-budget 100 -o all.data -e cpu-clock --switch-output=300ms",
    );
    shell.arg("--").arg(c("waits.c")).words("20").ok();
    let (mut files, mut waited) = (0, 0);
    for entry in std::fs::read_dir(here.path(".")).expect("the folder") {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name");
        if !name.starts_with("all.data.") {
            continue;
        }
        let report = here
            .rprof("report --off-cpu --format json -i")
            .arg(&name)
            .run();
        files += 1;
        if report.code() == Some(0) {
            waited += u64::from(!Report::parse(&report).events.is_empty());
        }
    }
    assert!(files > 1 && waited > 1, "{waited} of {files}");
    let stream = here.rprof("record -q --off-cpu -o - -- sleep 0.2").ok();
    let shell = here
        .rprof("collapse -q --off-cpu -i -")
        .stdin(stream.bytes());
    shell.ok().prints("[sleep]");
}

fn allowed_cpus() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).expect("CPUs");
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect()
}

#[test]
fn waits_that_begin_on_chosen_cpus_end_wherever_threads_go_on() {
    needs!(PerfEvents, Root);
    let [one, other, ..] = allowed_cpus()[..] else {
        return skip("needs two CPUs");
    };
    measured(|| {
        let here = Here::new();
        let shell = here.rprof("record --off-cpu --off-cpu-budget 100 -e cpu-clock -g");
        let shell = shell.words(&format!("-C {one} --")).arg(c("migrates.c"));
        let run = shell.words(&format!("1 {one} {other}")).ok();
        run.says("waits that began there");
        let truth = figures(&run);
        let report = here.report("--off-cpu --no-fold-idle");
        for function in ["wait_here", "wait_and_go_elsewhere"] {
            let found = report.only().row(function).total;
            is_within(function, found, truth[function], 0.02)?;
        }
        let names = report.only().rows.iter().map(|row| &*row.symbol);
        assert!(
            !names.into_iter().any(|name| name == "wait_elsewhere"),
            "{run}"
        );
        let elsewhere = here.rprof("collapse -q --cpu").arg(other.to_string()).run();
        assert_eq!(elsewhere.out(), "", "{run}");
        Ok(())
    });
}

#[test]
fn time_without_a_cpu_is_that_of_the_scheduler() {
    needs!(PerfEvents, Root, Tool("taskset"));
    let here = Here::new();
    // The fields of schedstat: CPU time, run-queue wait time, time slices.
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; read a b c </proc/$$/schedstat; echo waited $b";
    let cpu = allowed_cpus()[0].to_string();
    let beside = here.command("taskset").arg("-c").arg(&cpu);
    let beside = beside.words("sh -c").arg("while :; do :; done").start();
    let shell = here.rprof("record --off-cpu --off-cpu-budget 100 -e cpu-clock --");
    let shell = shell.words("taskset -c").arg(&cpu);
    let run = shell.words("sh -c").arg(script).run();
    beside.signal(rustix::process::Signal::KILL);
    beside.end();
    run.exits(0).says("scheduler statistics");
    let (told, delay) = (figures(&run)["waited"], noted_as(&here, "run-delay.ns"));
    // The shell ran a little longer.
    assert!(
        told > 0 && delay >= told,
        "{delay} ns, and {told} a moment before the end"
    );
    // Switch records show only preemptions. Each value has its own clock.
    let preempted = noted(&here, "runnable.ns");
    assert!(preempted <= delay + delay / 20, "{preempted} of {delay} ns");
}

#[test]
fn threads_of_a_convoy_are_not_idle() {
    needs!(PerfEvents, Root);
    measured(|| {
        let here = Here::new();
        let shell = here.rprof("record --off-cpu --off-cpu-budget 100 -e cpu-clock -g --");
        let run = shell.arg(c("convoy.c")).words("60 3 1").ok();
        let truth = figures(&run);
        let report = here.report("--off-cpu");
        let queue = report.only().row("stand_in_queue").total;
        is_within("the queue", queue, truth["stand_in_queue"], 0.02)?;
        let stacks: Folded = folded(&here.rprof("collapse --off-cpu -q").ok());
        let is_idle =
            |stack: &&String| stack.contains(";wait_for_work;") && stack.ends_with("[idle]");
        let idle = stacks.iter().filter(|(stack, _)| is_idle(stack));
        let idle: u64 = idle.map(|(_, weight)| weight).sum();
        is_within("those without work", idle, truth["wait_for_work"], 0.02)
    });
}

#[test]
fn threads_and_users_are_watched_for_waits() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let sleeper = here.command(c("waits.c")).words("500").start();
    let pid = sleeper.pid().as_raw_nonzero();
    let tasks = format!("/proc/{pid}/task");
    let other = || {
        let tasks = std::fs::read_dir(&tasks).ok()?;
        let tids = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
        tids.filter(|tid| *tid != pid.to_string()).min()
    };
    crate::support::wait_until("it has threads", || other().is_some());
    let tid = other().expect("a thread");
    let shell = here.rprof("record --off-cpu -d 0.3 -t").arg(&tid);
    shell.ok().says("of 1 thread:");
    let stacks: Folded = folded(&here.rprof("collapse --off-cpu -q --tid").arg(&tid).ok());
    let waited: u64 = stacks.values().sum();
    assert!(waited > 0 && waited < 600_000_000, "{waited}");
    here.rprof("record --off-cpu -d 0.3 -u root")
        .ok()
        .says("of offcpu-time");
    sleeper.signal(rustix::process::Signal::KILL);
    sleeper.end();
}

#[test]
fn a_control_group_is_watched_for_waits() {
    needs!(Kernel);
    let here = Here::new();
    let name = format!("rprof-waits-{}", std::process::id());
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let Some(mount) = mounts.find(|words| words.get(2) == Some(&"cgroup2")) else {
        return skip("needs cgroup v2, mounted");
    };
    let group = std::path::Path::new(mount[1]).join(&name);
    if std::fs::create_dir(&group).is_err() {
        return skip("needs the right to make a control group");
    }
    let program = here.command(c("waits.c")).words("500").start();
    let pid = program.pid().as_raw_nonzero();
    std::fs::write(group.join("cgroup.procs"), pid.to_string()).expect("it moves");
    let strangers = here.sh("while :; do /bin/true; done").start();
    let run = here
        .rprof("record --off-cpu --off-cpu-budget 100 -m 16M -d 0.5 -G")
        .arg(&name)
        .run();
    strangers.signal(rustix::process::Signal::KILL);
    strangers.end();
    program.signal(rustix::process::Signal::KILL);
    program.end();
    crate::support::wait_until("the group is empty", || std::fs::remove_dir(&group).is_ok());
    run.exits(0).says("of offcpu-time");
    let waits = here.report("--off-cpu");
    let [on, blocked, runnable, unknown] =
        ["on-cpu.ns", "blocked.ns", "runnable.ns", "unknown.ns"].map(|key| noted(&here, key));
    let lives = noted(&here, "threads") * noted_as(&here, "duration.ns");
    let total = on + blocked + runnable + unknown;
    assert!(total <= lives + lives / 20, "{total} of {lives} ns");
    let names = here.rprof("collapse -q --off-cpu").ok().out();
    let is_its = |stack: &str| stack.starts_with("waits;");
    assert!(names.lines().all(is_its), "{names}");
    let row = waits.only().row("wait_in_nanosleep");
    let duration = noted_as(&here, "duration.ns");
    assert!(
        row.total > 0 && row.total <= duration,
        "{} of {duration}",
        row.total
    );
}

#[test]
fn a_ring_that_is_too_small_makes_no_wait_longer_than_the_run() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let shell = here.rprof("record --off-cpu --off-cpu-budget 100 -m 64K -e cpu-clock -g --");
    let run = shell.arg(c("pingpong.c")).words("500 10").ok();
    let duration = noted_as(&here, "duration.ns");
    let stacks = here.perf("script -F event,period").ok();
    for line in stacks.out().lines() {
        if let Some((period, "offcpu-time:")) = line.trim().split_once(char::is_whitespace) {
            let period: u64 = period.parse().expect("a period");
            assert!(period <= duration, "{period} of {duration}");
        }
    }
    let [on, blocked, runnable, unknown] =
        ["on-cpu.ns", "blocked.ns", "runnable.ns", "unknown.ns"].map(|key| noted(&here, key));
    let total = on + blocked + runnable + unknown;
    assert!(total <= 3 * duration, "{total} of 3 times {duration}");
    if noted(&here, "lost-switches") > 0 {
        run.says("context switches:");
    }
}

#[test]
fn a_thread_that_sleeps_all_the_time_is_there_with_its_stack() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let sleeper = here.command(c("waits.c")).words("500").start();
    let pid = sleeper.pid().as_raw_nonzero();
    let waits_for_the_others = || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        // futex(2), in pthread_join(3).
        call.is_ok_and(|line| line.starts_with("202 ") || line.starts_with("98 "))
    };
    crate::support::wait_until("it sleeps", waits_for_the_others);
    let shell = here.rprof("record --off-cpu -d 0.5 -t");
    shell.arg(pid.to_string()).ok();
    sleeper.signal(rustix::process::Signal::KILL);
    sleeper.end();
    let waits = here.report(&format!("--off-cpu --tid {pid}"));
    assert!(
        waits.only().weight >= 450_000_000,
        "{}",
        waits.only().weight
    );
    assert_eq!(waits.only().row("main").total, waits.only().weight);
}

/// Short waits are summed up, and written later.
#[test]
fn waits_before_an_exec_are_the_earlier_programs() {
    needs!(PerfEvents, Root, Tool("python3"));
    let here = Here::new();
    let program =
        "import os, time\nfor n in range(40): time.sleep(1e-6)\nos.execvp('true', ['true'])";
    let run = here.rprof("record -q --off-cpu --off-cpu-budget 100 -- python3 -c");
    run.arg(program).ok();
    let sleeps = folded(&here.rprof("collapse -q --off-cpu --reason sleep").ok());
    assert!(!sleeps.is_empty());
    assert!(
        sleeps.keys().all(|stack| stack.starts_with("python3;")),
        "{sleeps:#?}"
    );
}

/// A library that is loaded later may take the address of one that was unloaded.
#[test]
fn waits_in_an_unloaded_library_have_its_names() {
    needs!(PerfEvents, Kernel);
    let library = |name: &str| {
        let define = format!("-DWAIT={name}");
        c_with("plugin.c", &[&define, "-shared", "-fPIC"])
    };
    let here = Here::new();
    let run = here
        .rprof("record -q --off-cpu=10 --off-cpu-budget 100 --")
        .arg(c_with("plugin.c", &["-DRELOAD"]));
    let run = run
        .arg(library("wait_in_first"))
        .arg(library("wait_in_second"));
    let run = run.words("50").ok();
    let at_the_same_address: u64 = run.out().trim().parse().unwrap();
    assert!(at_the_same_address > 50, "{run}");
    let waits = folded(&here.rprof("collapse -q --off-cpu --reason sleep").ok());
    for (caller, right, wrong) in [
        ("call_first", "wait_in_first", "wait_in_second"),
        ("call_second", "wait_in_second", "wait_in_first"),
    ] {
        let ns = |function: &str| -> u64 {
            let is_it =
                |(stack, _): &(&String, &u64)| stack.contains(&format!(";{caller};{function};"));
            waits.iter().filter(is_it).map(|(_, ns)| ns).sum()
        };
        // 50 calls with 5 waits of 20 us each.
        assert!(ns(right) > 5_000_000, "{waits:#?}");
        assert_eq!(ns(wrong), 0, "{waits:#?}");
    }
}

#[test]
fn waits_that_cannot_be_had_are_told() {
    needs!(PerfEvents);
    let here = Here::new();
    for options in ["--overwrite -- true", "-G x,y"] {
        let run = here.rprof("record --off-cpu").words(options).exits(2);
        run.says("--off-cpu");
    }
    here.record("-e cpu-clock", &c("shares.c"), "0.1");
    here.rprof("report --off-cpu")
        .exits(1)
        .says("`rprof record --off-cpu`");
    here.rprof("report --wall")
        .exits(2)
        .says("`rprof record --off-cpu`");
    here.rprof("record -q --off-cpu -e page-faults -- sleep 0.1")
        .ok();
    here.rprof("report --wall").exits(2).says("-e cpu-clock");
}
