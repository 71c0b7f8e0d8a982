//! Latency: weights by the number of running threads.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Here, Report, Run, c, check, folded, measured, needs};

fn seconds(run: &Run) -> Vec<f64> {
    let words = run.out();
    let words = words.split_whitespace();
    words.map(|word| word.parse().expect("seconds")).collect()
}

fn recorded(here: &Here, options: &str, args: &str) -> Vec<f64> {
    let run = here.rprof("record -q").words(options).arg("--");
    seconds(&run.arg(c("phases.c")).words(args).ok())
}

/// Latency by leaf, and samples by the number of running threads.
type Recomputed = (BTreeMap<String, f64>, BTreeMap<usize, u64>);

/// Recomputes latencies from the samples and switches of `rprof script`.
fn recomputed(here: &Here) -> Recomputed {
    let fields = "script -q -G -F pid,tid,time,period,ip,sym --ns";
    let text = here
        .rprof(fields)
        .words("--show-switch-events --show-task-events")
        .ok()
        .out();
    let thread = |line: &str| -> Option<String> {
        let (_, tid) = line.split_whitespace().next()?.split_once('/')?;
        Some(tid.to_owned())
    };
    // A thread whose first switch leaves its CPU ran until then.
    let (mut seen, mut running) = (BTreeSet::new(), BTreeSet::new());
    for line in text
        .lines()
        .filter(|line| line.contains("PERF_RECORD_SWITCH"))
    {
        let tid = thread(line).expect("a thread");
        if seen.insert(tid.clone()) && line.contains(" OUT") {
            running.insert(tid);
        }
    }
    let (mut own, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let Some(tid) = thread(line) else {
            continue;
        };
        if line.contains("PERF_RECORD_SWITCH") {
            match line.contains(" OUT") {
                true => running.remove(&tid),
                false => running.insert(tid),
            };
        } else if line.contains("PERF_RECORD_EXIT") {
            // PERF_RECORD_EXIT(PID:TID):(PARENT:PARENT)
            let ended = line.split(['(', ':', ')']).nth(3).expect("a thread");
            running.remove(ended);
        } else if !line.contains("PERF_RECORD") {
            let mut words = line.split_whitespace().skip(2);
            let period: f64 = words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a period");
            let leaf = words.nth(1).unwrap_or("[unknown]").to_owned();
            let at_once = running.len() + usize::from(!running.contains(&tid));
            *own.entry(leaf).or_insert(0.0) += period / at_once as f64;
            *counts.entry(at_once).or_insert(0) += 1;
        }
    }
    (own, counts)
}

fn equals_single_samples(here: &Here) {
    let (own, counts) = recomputed(here);
    let report = here.report("--latency");
    let event = report.only();
    assert!(event.name.ends_with(":latency"), "{}", event.name);
    let sum: f64 = own.values().sum();
    assert!(
        (event.weight as f64 - sum).abs() < 1e-3 * sum,
        "{} of {sum}",
        event.weight
    );
    for name in ["serial", "parallel", "first_stage", "second_stage"] {
        let expected = own.get(name).copied().unwrap_or(0.0) / sum;
        let found = event.self_share(name);
        assert!(
            (found - expected).abs() < 1e-3,
            "{name}: {found}, not {expected}"
        );
    }
    let mut of_all = 0;
    for (threads, samples) in &counts {
        let chosen = here.report(&format!("--parallelism {threads}"));
        assert_eq!(chosen.only().samples, *samples, "{threads} of {counts:?}");
        of_all += samples;
    }
    assert_eq!(event.samples, of_all);
    assert_eq!(here.report("--parallelism 1-256").only().samples, of_all);
    let none = here.rprof("report --parallelism 255").exits(1);
    none.says("none passes --parallelism 255; that many threads");
    let stacks = folded(&here.rprof("collapse -q --latency").ok());
    assert_eq!(stacks.values().sum::<u64>(), event.weight);
}

#[test]
fn latency_equals_sums_of_single_samples() {
    needs!(PerfEvents, Perf);
    for args in ["parallel 0.2 0.2 3", "pipeline 0.002 0.003 60"] {
        let here = Here::new();
        recorded(&here, "--latency -e cpu-clock:u", args);
        equals_single_samples(&here);
        let here = Here::new();
        here.perf_record(
            "-e cpu-clock:u -F 999 --switch-events",
            &c("phases.c"),
            args,
        );
        equals_single_samples(&here);
    }
}

#[test]
fn stages_that_take_turns_have_their_cpu_time_as_latency() {
    needs!(PerfEvents);
    for options in ["--latency -e cpu-clock:u", "--off-cpu -e cpu-clock:u"] {
        measured(|| {
            let here = Here::new();
            recorded(&here, options, "turns 0.002 0.003 120");
            let report = here.report("--latency --event cpu-clock:u");
            let event = report.only();
            let [first, second] =
                ["first_stage", "second_stage"].map(|name| event.self_share(name));
            let share = second / (first + second);
            check((share - 0.6).abs() < 0.03, || format!("{options}: {share}"))?;
            let cpu = here.report("--event cpu-clock:u").only().weight as f64;
            let latency = event.weight as f64;
            check((latency / cpu - 1.0).abs() < 0.03, || {
                format!("{options}: {latency} of {cpu}")
            })
        });
    }
}

#[test]
fn latency_with_waits_is_the_wall_clock_time() {
    needs!(PerfEvents, Root);
    for (args, name) in [
        ("parallel 0.2 0.2 3", "serial"),
        // 3 % of the CPU time is 6 % of the elapsed time on two CPUs.
        ("parallel 0.1 1.6 2", "serial"),
        ("server 0.003 0.002 100", "[poll]"),
    ] {
        measured(|| {
            let here = Here::new();
            let printed = recorded(&here, "--off-cpu --latency", args);
            let whole: f64 = printed.iter().sum();
            let report = here.report("--latency --wall");
            let event = report.only();
            assert_eq!(event.name, "wall-clock:latency");
            let found = event.weight as f64 / 1e9;
            // The program's start and end are not in its figures.
            check((found / whole - 1.0).abs() < 0.05, || {
                format!("{args}: {found} s of {whole} s")
            })?;
            let (share, expected) = (event.total_share(name), printed[0] / whole);
            // The server's figure includes the work of its calls.
            let tolerance = if name == "serial" { 0.01 } else { 0.03 };
            check((share - expected).abs() < tolerance, || {
                format!("{args}: {share}, not {expected}")
            })?;
            let tally = &report.quality["latency"];
            let of = |key: &str| tally[key].as_u64().expect("nanoseconds");
            assert_eq!(of("ran") + of("waited"), event.weight);
            assert!(of("used") >= of("ran"));
            let parts = ["--off-cpu", "--event cpu-clock"].map(|part| {
                let part = here.report(&format!("--latency {part}"));
                part.events.iter().map(|event| event.weight).sum::<u64>()
            });
            assert_eq!(parts.iter().sum::<u64>(), event.weight);
            let waited = here.report("--latency --parallelism 0 --off-cpu");
            assert_eq!(waited.only().weight, parts[0]);
            Ok(())
        });
    }
}

#[test]
fn recordings_without_switches_are_refused() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-e cpu-clock:u", &c("shares.c"), "0.05");
    for command in [
        "report",
        "collapse",
        "export -o x.pb.gz",
        "annotate",
        "flamegraph",
    ] {
        for flag in ["--latency", "--parallelism 1"] {
            let run = here.rprof(command).words(flag).exits(2);
            let name = flag.split(' ').next().expect("a flag");
            run.says(&format!("{name} needs to know when threads ran"));
            run.says("`rprof record --latency` and --off-cpu record them");
        }
    }
    here.rprof("script --latency")
        .exits(2)
        .says("--parallelism");
    here.rprof("explain --latency").exits(2).says("CPU time");
    here.rprof("script --parallelism 2")
        .exits(2)
        .says("needs to know");
    here.rprof("report --latency --weight samples")
        .exits(2)
        .says("--weight");
    let stacks = here.rprof("collapse -q").ok();
    std::fs::write(here.path("x.folded"), stacks.bytes()).expect("folded stacks");
    here.rprof("report --latency x.folded")
        .exits(2)
        .says("--latency does not work with x.folded");
    here.rprof("record --memory --latency true")
        .exits(2)
        .says("--memory and --latency cannot be combined");
}

#[test]
fn exports_and_comparisons_by_latency_say_so() {
    needs!(PerfEvents);
    let here = Here::new();
    recorded(&here, "--latency -e cpu-clock:u", "parallel 0.1 0.1 2");
    let table = here.rprof("report --latency").ok();
    table
        .prints("# event cpu-clock:u:latency")
        .prints("cpu   samples");
    table.prints("threads at a time");
    table.says_nothing();
    here.rprof("export -q --latency -o x.pb.gz").ok();
    let back = Report::parse(&here.rprof("report -q --format json x.pb.gz").ok());
    let names: Vec<&str> = back.events.iter().map(|event| &*event.name).collect();
    assert!(names.contains(&"latency"), "{names:?}");
    here.rprof("flamegraph -q --latency -o x.svg").ok();
    let svg = std::fs::read_to_string(here.path("x.svg")).expect("a picture");
    assert!(svg.contains("cpu-clock:u:latency"), "{svg}");
    here.rprof("diff -q --latency perf.data perf.data").ok();
    // Its runs record switches, or it could not compare them.
    let program = c("phases.c");
    let gate = here
        .rprof("gate -q --runs 2 --latency -e cpu-clock:u --")
        .arg(&program)
        .words("parallel 0.02 0.02 2 :::")
        .arg(&program)
        .words("parallel 0.02 0.02 2")
        .run();
    assert!(matches!(gate.code(), Some(0 | 3)), "{gate}");
}
