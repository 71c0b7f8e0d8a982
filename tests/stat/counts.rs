//! Counts compared with known values, and with perf.

use rustix::process::{Signal, kill_process};

use super::{HITS, counts, json, json_in, perf_count, stat_calls};
use crate::support::{Here, c, needs, wait_until};

#[test]
fn each_call_is_counted_once_in_all_threads() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "--format json", "37").ok();
    assert_eq!(counts(&json(&run.out()), HITS), [("all".to_owned(), 74)]);
    let per_cpu = stat_calls(&here, "--format json --per cpu", "500").ok();
    let by_cpu = counts(&json(&per_cpu.out()), HITS);
    assert_eq!(by_cpu.iter().map(|(_, value)| value).sum::<u64>(), 1000);
    assert!(
        by_cpu.iter().all(|(part, _)| part.starts_with("CPU ")),
        "{by_cpu:?}"
    );
}

#[test]
fn counts_of_a_command_and_its_children_are_those_of_perf() {
    needs!(PerfEvents, Perf, Tracepoints);
    let here = Here::new();
    let events = "sched:sched_process_fork,sched:sched_process_exit,sched:sched_process_exec";
    let script = "for i in 1 2 3 4 5; do /bin/true; done; (/bin/true; /bin/true)";
    let ours = here
        .rprof("stat --format json -e")
        .arg(events)
        .arg("--")
        .words("sh -c")
        .arg(script)
        .ok();
    let ours = json(&ours.out());
    let perf = here
        .perf("stat -x, -e")
        .arg(events)
        .arg("--")
        .words("sh -c")
        .arg(script)
        .ok();
    for event in events.split(',') {
        let [(_, count)] = counts(&ours, event)[..] else {
            panic!("one sum of {event}");
        };
        assert_eq!(count, perf_count(&perf, event), "{event}");
        assert!(count >= 6, "{event}: {count}");
    }
}

#[test]
fn processes_have_counts_of_their_own_that_add_up() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let calls = c("calls.c");
    let script = format!("{0} 300; {0} 200", calls.display());
    let count = |options: &str| {
        let stat = here
            .rprof("stat --format json")
            .words(options)
            .arg("-e")
            .arg(HITS);
        counts(&json(&stat.words("-- sh -c").arg(&script).ok().out()), HITS)
    };
    // The shell calls it too.
    let [(_, all)] = count("")[..] else {
        panic!("one sum");
    };
    let found = count("--per process");
    assert_eq!(
        found.iter().map(|(_, value)| value).sum::<u64>(),
        all,
        "{found:?}"
    );
    let is_part = |part: &str| part.starts_with("process ") || part.starts_with("before rprof");
    assert!(found.iter().all(|(part, _)| is_part(part)), "{found:?}");
}

#[test]
fn a_metric_brings_the_events_that_it_is_made_of() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("stat -M cpus --format json -- true").ok();
    let document = json(&run.out());
    let of_run = document["commands"][0]["runs"][0]["counts"].as_array();
    let events: Vec<_> = (of_run.expect("counts").iter())
        .map(|count| count["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].starts_with("task-clock"), "{events:?}");
    here.rprof("stat -M cpus -- true").ok().says("CPUs used");
    let both = here
        .rprof("stat -M cpus -e page-faults,task-clock -- true")
        .ok();
    both.says("page-faults").says("CPUs used");
    let wrong = here.rprof("stat -M speed -- true").exits(2);
    wrong.says("available: cpus, ipc, clock");
}

#[test]
fn events_of_the_kernel_need_one_run_whatever_their_number() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let options =
        "--multiplex=no --format json -e page-faults,{task-clock,cpu-clock},context-switches";
    let run = stat_calls(&here, options, "20").ok();
    assert_eq!(counts(&json(&run.out()), HITS), [("all".to_owned(), 40)]);
    assert!(!run.err().contains("times for each result"), "{run}");
    let split = here.rprof("stat --multiplex=no -I 100 -- true").exits(2);
    split.says("once for each part of the events");
}

#[test]
fn time_and_memory_are_there_on_every_machine() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let run = here.rprof("stat -- sh -c").arg("echo printed").ok();
    let known = [
        "CPUs used",
        "wall",
        "user",
        "system",
        "cpu",
        "max RSS",
        "task-clock",
        "context-switches",
        "cpu-migrations",
        "page-faults",
    ];
    for name in known {
        run.says(name);
    }
    assert_eq!(run.out(), "printed\n");
}

#[test]
fn a_delay_leaves_out_what_comes_before() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let late = stat_calls(&here, "--format json -D 1000000", "5").ok();
    assert_eq!(counts(&json(&late.out()), HITS), [("all".to_owned(), 0)]);
    let no_child = stat_calls(&here, "--format json -i", "5").ok();
    assert_eq!(
        counts(&json(&no_child.out()), HITS),
        [("all".to_owned(), 5)]
    );
}

#[test]
fn a_process_that_runs_is_counted_until_the_time_is_over() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut endless = here.command(c("endless.c")).start();
    let pid = endless.line();
    let stat = here
        .rprof("stat --format json -o out.json -e task-clock:u --timeout 300 -p")
        .arg(&pid);
    stat.ok();
    let document = json_in(&here.path("out.json"));
    let found = counts(&document, "task-clock:u");
    assert!(found[0].1 > 0, "{found:?}");
    let stat = here
        .rprof("stat --format json -e task-clock:u --timeout 300 --per thread -t")
        .arg(&pid)
        .ok();
    let parts = counts(&json(&stat.out()), "task-clock:u");
    assert_eq!(parts.len(), 1);
    assert!(
        parts[0].0.starts_with(&format!("thread {pid}")),
        "{parts:?}"
    );
    kill_process(endless.pid(), Signal::KILL).expect("it still runs");
    endless.end();
}

#[test]
fn intervals_come_while_it_runs_and_add_up() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "-I 1 --format json", "20000").ok();
    let lines: Vec<serde_json::Value> = run.out().lines().map(json).collect();
    let (document, intervals) = lines.split_last().expect("a document");
    assert_eq!(counts(document, HITS)[0].1, 40_000);
    let in_interval = |line: &serde_json::Value| line["interval"]["counts"][0]["value"].as_u64();
    let sum: Option<u64> = intervals.iter().map(in_interval).sum();
    assert_eq!(sum, Some(40_000), "{run}");
    let run = here
        .rprof("stat -x ; -I 20 --interval-count 3 -e task-clock:u --")
        .arg(c("endless.c"));
    let run = run.exits(128 + 15);
    let mut times: Vec<String> = (run.out().lines())
        .filter_map(|line| Some(line.split_once(";;1;all;task-clock:u;")?.0.to_owned()))
        .collect();
    times.dedup();
    assert_eq!(times.len(), 3, "{run}");
}

#[test]
fn a_signal_goes_to_the_command_and_what_was_counted_is_shown() {
    needs!(PerfEvents);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let here = Here::new();
        let mut stat = here
            .rprof("stat -e task-clock:u --")
            .arg(c("endless.c"))
            .start();
        let pid = stat.line();
        stat.signal(signal);
        let run = stat.end();
        run.exits(128 + number).says("task-clock:u").says("wall");
        wait_until("the command is gone", || {
            !std::path::Path::new("/proc").join(&pid).exists()
        });
    }
}

#[test]
fn threads_of_a_command_and_the_rest_add_up() {
    needs!(PerfEvents, Tracepoints);
    let here = Here::new();
    let run = stat_calls(&here, "--format json --per thread", "30000").ok();
    let parts = counts(&json(&run.out()), HITS);
    assert_eq!(
        parts.iter().map(|(_, value)| value).sum::<u64>(),
        60_000,
        "{parts:?}"
    );
    let first = parts.iter().find(|(part, _)| part.starts_with("thread "));
    assert_eq!(first.map(|(_, value)| *value), Some(30_000), "{parts:?}");
}

#[test]
fn a_probe_by_path_stays_in_its_thread_and_does_no_harm() {
    needs!(PerfEvents, Uprobes);
    let here = Here::new();
    let program = c("calls.c");
    let probe = format!("uprobe:{}:hit", program.display());
    // The kernel fails clone(2) if it cannot inherit such a probe: the program would exit with
    // status 1.
    let run = here
        .rprof("stat --format json -e")
        .arg(&probe)
        .arg("--")
        .arg(&program)
        .arg("21")
        .ok();
    run.says("threads and processes that start later");
    assert_eq!(counts(&json(&run.out()), &probe)[0].1, 21);
    let run = here
        .rprof("record --call-graph none -e")
        .arg(&probe)
        .arg("--")
        .arg(&program)
        .arg("21")
        .ok();
    run.says("threads and processes that start later");
}
