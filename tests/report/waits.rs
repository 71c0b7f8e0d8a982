//! Views of waits: idle threads, reason filters, and other formats.

use std::collections::BTreeMap;

use crate::support::{Here, Row, Tmux, c, folded, needs, pprof, wait_until};

const RPROF: &str = env!("CARGO_BIN_EXE_rprof");

/// Records threads that wait in mostly one place each, some that share a CPU, and the main thread,
/// which waits for the others.
fn recorded() -> Here {
    let here = Here::new();
    let waiting = here.command(c("waits.c")).words("500").job().start();
    let pid = waiting.pid().as_raw_nonzero();
    let waits_for_the_others = || {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
        // futex(2), in pthread_join(3).
        call.is_ok_and(|line| line.starts_with("202 ") || line.starts_with("98 "))
    };
    wait_until("it waits", waits_for_the_others);
    // All switches: a sleep has no end in a sampled window. In the program's session: nice values
    // do not apply between sessions (autogroups, sched(7)).
    let shell = here
        .rprof("record -q --off-cpu --off-cpu-budget 100 -e cpu-clock -F 999 -g -d 1 -p")
        .job();
    shell.arg(pid.to_string()).ok();
    waiting.signal(rustix::process::Signal::KILL);
    waiting.end();
    here
}

#[test]
fn idle_threads_are_one_block_unless_that_is_not_wanted() {
    needs!(PerfEvents, Root);
    let here = recorded();
    let folded_up = here.report("--off-cpu");
    let apart = here.report("--off-cpu --no-fold-idle");
    let (folded_up, apart) = (folded_up.only(), apart.only());
    assert_eq!(folded_up.weight, apart.weight);
    let idle = folded_up.row("[idle]");
    assert!(idle.own >= folded_up.row("main").total && idle.own > 0);
    assert_eq!(folded_up.row("main").total, apart.row("main").total);
    assert!(apart.rows.iter().all(|row| row.symbol != "[idle]"));
    here.rprof("report --off-cpu")
        .ok()
        .prints("shown as [idle]; --no-fold-idle");
    let sum: u64 = (folded(&here.rprof("collapse -q --off-cpu").ok()).iter())
        .filter(|(stack, _)| stack.split(';').nth(1) == Some("[idle]"))
        .map(|(_, weight)| weight)
        .sum();
    assert_eq!(sum, idle.own);
    here.rprof("flamegraph -q --wall").ok();
    let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("a picture");
    assert!(svg.contains("<title>[idle] ("), "{svg}");
}

#[test]
fn waits_are_chosen_by_their_reason() {
    needs!(PerfEvents, Root);
    let here = recorded();
    let whole = here.report("--off-cpu --no-fold-idle");
    let of = |reason: &str| whole.only().row(&format!("[{reason}]")).own;
    let chosen = |options: &str| here.report(options).only().weight;
    for reason in ["futex", "pipe", "sleep"] {
        let options = [
            format!("--no-fold-idle --reason {reason}"),
            format!("--reason {reason}"),
            format!("--off-cpu --symbol [{reason}]"),
            format!("--off-cpu --focus [{reason}]"),
            format!("--wall --focus [{reason}]"),
        ];
        for options in options {
            assert_eq!(chosen(&options), of(reason), "{options}");
        }
    }
    let both = chosen("--no-fold-idle --reason futex,pipe");
    assert_eq!(both, of("futex") + of("pipe"));
    assert_eq!(
        chosen("--no-fold-idle --reason cpu"),
        of("waiting for a CPU")
    );
    let idle = here.report("--off-cpu").only().row("[idle]").own;
    assert_eq!(chosen("--reason idle"), idle);
    assert_eq!(chosen("--wall --reason running,*"), chosen("--wall"));
    let ran = chosen("--wall --reason running");
    assert_eq!(ran, chosen("--event cpu-clock"));
    std::fs::write(
        here.path("waits.folded"),
        here.rprof("collapse -q --wall --no-fold-idle").ok().bytes(),
    )
    .expect("cannot write folded stacks");
    assert_eq!(chosen("--symbol [pipe] waits.folded"), of("pipe"));
    let states = here
        .rprof("report --format json --wall --no-fold-idle -s comm,state")
        .ok();
    let states: serde_json::Value = serde_json::from_slice(states.bytes()).expect("JSON");
    let sum = |state: &str| -> u64 {
        let rows = states["events"][0]["rows"].as_array().expect("rows");
        let of = rows.iter().filter(|row| row["state"] == state);
        of.map(|row| row["self"].as_u64().expect("a number")).sum()
    };
    assert_eq!(sum("running"), ran);
    assert_eq!(sum("[pipe]"), of("pipe"));
    here.rprof("report --reason odd")
        .exits(1)
        .says("none passes --reason odd");
}

#[test]
fn an_event_that_was_chosen_is_kept_or_refused() {
    needs!(PerfEvents, Root);
    let here = recorded();
    let weight = |options: &str| here.report(options).only().weight;
    let (ran, waited) = (weight("--event cpu-clock"), weight("--off-cpu"));
    assert_eq!(weight("--event offcpu-time --off-cpu"), waited);
    assert_eq!(weight("--event cpu-clock --wall"), ran + waited);
    assert_eq!(weight("--event cpu-clock --reason running"), ran);
    assert_eq!(weight("--reason running"), ran);
    for options in [
        "--event cpu-clock --off-cpu",
        "--event cpu-clock --reason futex",
        "--event offcpu-time --wall",
        "--off-cpu --reason running",
    ] {
        for command in [
            "report",
            "collapse",
            "export -o x.pb.gz",
            "html -i perf.data",
        ] {
            if command.starts_with("html") && options.contains("--event") {
                continue;
            }
            let run = here.rprof(&format!("{command} {options}")).exits(2);
            run.says(
                options
                    .split(' ')
                    .find(|word| *word != "--event" && word.starts_with("--"))
                    .unwrap(),
            );
        }
    }
    here.rprof("flamegraph -i perf.data -e cpu-clock --off-cpu")
        .exits(2)
        .says("--off-cpu");
}

#[test]
fn profiles_that_were_exported_have_the_same_filters() {
    needs!(PerfEvents, Root);
    let here = recorded();
    for format in ["w.pb.gz", "w.folded"] {
        match format {
            "w.folded" => std::fs::write(
                here.path(format),
                here.rprof("collapse -q --wall --no-fold-idle").ok().bytes(),
            )
            .expect("cannot write folded stacks"),
            _ => {
                here.rprof("export -q --wall --no-fold-idle -o w.pb.gz")
                    .ok();
            }
        }
        for options in [
            "--reason sleep",
            "--reason futex,pipe",
            "--reason running",
            "--wall --reason running,futex",
            "--off-cpu",
            "--wall",
        ] {
            let of = |file: &str| {
                let report = here.report(&format!("{options} --no-fold-idle {file}"));
                let event = report.events.iter().find(|event| event.weight > 0);
                event.map(|event| event.weight)
            };
            let expected = of("");
            assert!(expected > Some(0), "{options}");
            assert_eq!(of(format), expected, "{options} of {format}");
        }
    }
    here.rprof("export -q --no-fold-idle -o both.pb.gz").ok();
    let waited = here.report("--off-cpu --no-fold-idle").only().weight;
    assert_eq!(here.report("--off-cpu both.pb.gz").only().weight, waited);
    std::fs::write(here.path("ran.folded"), "main;work 10\n").expect("cannot write");
    for flag in ["--off-cpu", "--reason futex"] {
        let run = here.rprof(&format!("report {flag} ran.folded")).exits(1);
        run.says("has no waits").says("rprof record --off-cpu");
    }
    assert_eq!(here.report("--reason running ran.folded").only().weight, 10);
}

#[test]
fn a_report_of_all_events_shows_waits_as_one_of_waits_does() {
    needs!(PerfEvents, Root);
    let here = recorded();
    let waits = here.report("--off-cpu");
    for options in ["", "--no-children"] {
        let all = here.report(options);
        let of_waits = all.events.iter().find(|event| event.name == "offcpu-time");
        let of_waits = of_waits.expect("waits");
        let reasons = |rows: &[Row]| -> BTreeMap<String, u64> {
            let rows = rows.iter().filter(|row| row.symbol.starts_with('['));
            rows.map(|row| (row.symbol.clone(), row.own)).collect()
        };
        let expected = reasons(&waits.only().rows);
        assert!(
            expected.len() > 2 && expected.contains_key("[idle]"),
            "{expected:?}"
        );
        assert_eq!(reasons(&of_waits.rows), expected, "{options}");
    }
    let text = here.rprof("report").ok().out();
    let (_, below) = text.split_once("# event offcpu-time").expect("waits");
    assert!(below.contains("# idle: "), "{text}");
    assert_eq!(text.matches("# idle: ").count(), 1, "{text}");
}

#[test]
fn other_forms_have_waits_apart_from_time_on_cpus() {
    needs!(PerfEvents, Root);
    let here = recorded();
    std::fs::copy(here.path("perf.data"), here.path("perf.data.old")).expect("cannot copy");
    here.rprof("diff --off-cpu --all").ok().prints("[futex]");
    here.rprof("diff --wall --all").ok().prints("[idle]");
    here.rprof("annotate --event offcpu-time")
        .exits(2)
        .says("`rprof report --off-cpu -g`");
    for (options, form) in [
        ("--wall", "firefox"),
        ("--off-cpu", "speedscope"),
        ("--wall", "otlp"),
    ] {
        let run = here
            .rprof("export -q -o -")
            .words(options)
            .words("--format")
            .arg(form);
        assert!(!run.ok().bytes().is_empty(), "{form}");
    }
    let Some(tool) = pprof() else {
        return;
    };
    let sum = |file: &str, index: &str| {
        let shell = here.command(&tool).env("PPROF_TMPDIR", "tmp");
        let run = shell.words("-raw").arg(file).ok();
        let text = run.out();
        let mut lines = text.lines().skip_while(|line| *line != "Samples:").skip(1);
        let types = lines.next().expect("types of values");
        let at = (types.split_whitespace())
            .position(|word| word.trim_end_matches("[dflt]") == index)
            .unwrap_or_else(|| panic!("no {index} in {types}"));
        let value = |line: &str| -> Option<u64> {
            let (values, _) = line.split_once(':')?;
            values.split_whitespace().nth(at)?.parse().ok()
        };
        lines
            .take_while(|line| *line != "Locations")
            .filter_map(value)
            .sum::<u64>()
    };
    here.rprof("export -q -o both.pb.gz").ok();
    here.rprof("export -q --wall -o wall.pb.gz").ok();
    here.rprof("export -q --off-cpu -o off.pb.gz").ok();
    let waited = here.report("--off-cpu").only().weight;
    let ran = here.report("--event cpu-clock").only().weight;
    assert_eq!(sum("both.pb.gz", "cpu/nanoseconds"), ran);
    assert_eq!(sum("both.pb.gz", "offcpu/nanoseconds"), waited);
    assert_eq!(sum("off.pb.gz", "offcpu/nanoseconds"), waited);
    assert_eq!(sum("wall.pb.gz", "wall/nanoseconds"), ran + waited);
}

#[test]
fn waits_are_on_the_screen_as_well() {
    needs!(PerfEvents, Root, File("/usr/bin/tmux"));
    let here = recorded();
    let terminal = Tmux::new(&here);
    for (options, event) in [("--off-cpu", "offcpu-time"), ("--wall", "wall-clock")] {
        terminal.run(&format!("clear; {RPROF} report --tui {options}"));
        terminal.wait("? help");
        let screen = terminal.screen();
        assert!(
            screen.contains("[idle]") && screen.contains(event),
            "{screen}"
        );
        terminal.keys("q");
        wait_until("the shell is back", || {
            terminal.screen().trim_end().ends_with("ready>")
        });
    }
}
