//! `rprof report`: rows, formats, filters.

use std::collections::BTreeSet;

use crate::support::{
    Here, PERF_REPORT, Report, Row, Run, c, check, folded, measured, needs, perf_samples,
    perf_self_samples,
};

fn recorded() -> Here {
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("threads.c"), "0.3");
    here
}

#[test]
fn report_is_a_table_with_a_verdict_above() {
    needs!(PerfEvents);
    let here = recorded();
    let run = here.rprof("report").ok();
    run.says_nothing()
        .prints("# event cpu-clock: ")
        .prints("stacks: ")
        .prints("symbol");
    assert!(
        !run.out().contains('\x1b'),
        "colour without a terminal in\n{run}"
    );
    let report = here.report("");
    let samples = report.only().samples;
    run.prints(&format!("# event cpu-clock: {samples} samples"));
    let out = run.out();
    let row = out
        .lines()
        .find(|l| l.split_whitespace().nth(3) == Some("work_left"));
    let row = row.unwrap_or_else(|| panic!("no work_left in\n{run}"));
    let words: Vec<_> = row.split_whitespace().collect();
    let share = report.only().self_share("work_left") * 100.0;
    assert_eq!(words[0], format!("{share:.2}%"), "{row}");
    assert_eq!(
        words[2],
        report.only().row("work_left").self_samples.to_string(),
        "{row}"
    );
    assert!(words[4].ends_with("/threads"), "{row}");
}

#[test]
fn report_has_colours_only_when_told_to() {
    needs!(PerfEvents);
    let here = recorded();
    let has_colour = |run: &Run| run.out().contains('\x1b');
    let colour = here.rprof("report --color always").ok();
    assert!(has_colour(&colour), "{colour}");
    let forced = here.rprof("report").env("CLICOLOR_FORCE", "1").ok();
    assert!(has_colour(&forced), "{forced}");
    let plain = here
        .rprof("report")
        .env("NO_COLOR", "1")
        .env("CLICOLOR_FORCE", "1")
        .ok();
    assert!(!has_colour(&plain), "{plain}");
}

#[test]
fn report_goes_through_a_pager_on_a_terminal_only() {
    needs!(PerfEvents, Terminal);
    let here = recorded();
    let pager = "tr a-z A-Z";
    let plain = here.rprof("report").env("PAGER", pager).ok();
    plain.prints("work_left");
    let inner = |words| format!("{} {words}", env!("CARGO_BIN_EXE_rprof"));
    let on_terminal = |words, pager| {
        let script = here.command("script").env("PAGER", pager).arg("-qec");
        script.arg(inner(words)).arg("/dev/null").run()
    };
    on_terminal("report", pager).exits(0).prints("WORK_LEFT");
    on_terminal("script", pager).exits(0).prints("WORK_LEFT");
    on_terminal("script", "head -n 1").exits(0);
    on_terminal("report", "").exits(0).prints("work_left");
    on_terminal("report -i missing", pager)
        .exits(1)
        .prints("missing");
}

#[test]
fn report_on_a_terminal_fits_it_and_begins_with_the_hottest() {
    needs!(PerfEvents, Terminal);
    let here = recorded();
    let on_terminal = |columns: usize, words: &str| {
        let rprof = env!("CARGO_BIN_EXE_rprof");
        let inner = format!("stty cols {columns} rows 24; {rprof} report {words}");
        let script = here.command("script").arg("-qec").arg(inner);
        script.arg("/dev/null").run().exits(0).out()
    };
    let is_row = |line: &&str| line.contains('%') && !line.starts_with('#');
    let width = |line: &str| line.trim_end().chars().count();
    let plain = here.rprof("report").ok();
    let all = plain.out().lines().filter(is_row).count();
    let narrow = on_terminal(60, "--color never -n 2");
    let rows: Vec<_> = narrow.lines().filter(is_row).collect();
    assert_eq!(rows.len(), 2, "{narrow}");
    assert!(rows.iter().all(|row| width(row) <= 60), "{narrow}");
    let hottest: Vec<_> = (rows.iter())
        .filter_map(|row| row.split_whitespace().nth(3))
        .collect();
    assert!(hottest.contains(&"work_left"), "{narrow}");
    let last = narrow.lines().last().unwrap_or_default().trim_end();
    let rest = format!("… {} more (-n 0 for all)", all - 2);
    assert_eq!(last, rest, "{narrow}");
    assert!(!narrow.contains("/threads"), "{narrow}");
    assert!(on_terminal(60, "--wide").contains("/threads"));
    let everything = on_terminal(60, "-n 0 --color never");
    assert_eq!(everything.lines().filter(is_row).count(), all);
    assert!(plain.out().contains("/threads") && !plain.out().contains(" more ("));
}

#[test]
fn report_shares_add_up() {
    needs!(PerfEvents);
    let here = recorded();
    let report = here.report("");
    let event = report.only();
    let own: u64 = event.rows.iter().map(|r| r.own).sum();
    let samples: u64 = event.rows.iter().map(|r| r.self_samples).sum();
    assert_eq!((own, samples), (event.weight, event.samples));
    for row in &event.rows {
        assert!(
            row.own <= row.total && row.total <= event.weight,
            "{}",
            row.symbol
        );
    }
    let stacks = &report.quality["stacks"];
    assert_eq!(stacks["total"], event.samples);
    let kinds = ["complete", "truncated", "no_unwind_info", "other"];
    let sum: u64 = kinds.iter().map(|k| stacks[k].as_u64().unwrap()).sum();
    assert_eq!(stacks["total"], sum, "{stacks}");
    let frames = &report.quality["frames"];
    let unnamed = frames["unnamed_by_reason"].as_object().expect("an object");
    let unnamed: u64 = unnamed.values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(
        frames["total"],
        frames["named"].as_u64().unwrap() + frames["located"].as_u64().unwrap() + unnamed,
        "{frames}"
    );
}

#[test]
fn report_sorts_by_self_or_total() {
    needs!(PerfEvents);
    let here = recorded();
    for (options, weight) in [
        ("", (|r| r.total) as fn(&Row) -> u64),
        ("--children", |r| r.total),
        ("--no-children", |r| r.own),
    ] {
        let report = here.report(options);
        let weights: Vec<_> = report.only().rows.iter().map(weight).collect();
        assert!(
            weights.is_sorted_by(|a, b| a >= b),
            "with {options:?}: {weights:?}"
        );
    }
}

#[test]
fn report_without_children_has_no_total_and_the_same_self() {
    needs!(PerfEvents);
    let here = recorded();
    let (whole, flat) = (here.report(""), here.report("--no-children"));
    assert_eq!(flat.only().self_samples(), whole.only().self_samples());
    assert_eq!(flat.samples(), whole.samples());
    assert!(
        flat.only()
            .rows
            .iter()
            .all(|row| row.own > 0 && row.total == 0)
    );
    let text = here.rprof("report --no-children").ok();
    assert!(
        !text.out().contains("total") && !text.out().contains("stacks:"),
        "{text}"
    );
    let focused = here.report("--no-children --focus work_left");
    assert!(focused.samples() > 0 && focused.samples() < whole.samples());
    here.rprof("report --no-children -g").ok().prints("└─ ");
}

#[test]
fn report_as_markdown_is_a_table() {
    needs!(PerfEvents);
    let here = recorded();
    let run = here.rprof("report --format markdown -n 3").ok();
    let rows = run
        .out()
        .lines()
        .filter(|line| line.contains("% | "))
        .count();
    assert_eq!(rows, 3, "{run}");
    run.prints("| self | total | samples | symbol | object |")
        .prints("<code>work&#95;left</code>");
}

#[test]
fn report_has_columns_in_the_order_of_the_sort_keys() {
    needs!(PerfEvents);
    let here = recorded();
    let heading = |options: &str| {
        let out = here.rprof("report").words(options).ok().out();
        let line = out.lines().find(|line| line.contains("samples  "));
        let line = line
            .unwrap_or_else(|| panic!("no heading in {out}"))
            .trim_start_matches(['#', '|', ' ']);
        let words = line.split_whitespace().filter(|word| *word != "|");
        words.skip(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(heading("--sort comm,dso,sym"), "comm object symbol");
    assert_eq!(heading("--sort sym,dso,comm"), "symbol object comm");
    assert_eq!(heading("--sort dso,pid"), "object pid");
    assert_eq!(heading(""), "symbol object");
}

#[test]
fn report_groups_by_sort_keys() {
    needs!(PerfEvents);
    let here = recorded();
    let report = here.report("--sort comm");
    let event = report.only();
    for comm in ["busy-left", "busy right"] {
        let row = event.rows.iter().find(|r| r.comm == comm);
        let row = row.unwrap_or_else(|| panic!("no thread {comm:?}"));
        assert!(row.own > 0 && row.symbol.is_empty() && row.object.is_empty());
    }
    let objects = here.report("--sort dso");
    let rows = &objects.only().rows;
    assert!(
        rows.iter()
            .any(|r| r.object.ends_with("/threads") && r.own > 0)
    );
    assert!(rows.iter().all(|r| r.symbol.is_empty()));
}

#[test]
fn report_filters_samples() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("");
    let left = here.report("--comm busy-left");
    let left = left.only();
    assert!(left.rows.iter().all(|r| r.symbol != "work_right"));
    assert_eq!(left.row("work_left").own, all.only().row("work_left").own);
    let symbol = here.report("--symbol work_left");
    assert_eq!(
        symbol.only().samples,
        all.only().row("work_left").self_samples
    );
    let object = here.report("--dso threads --no-children");
    let own: u64 = (all.only().rows.iter())
        .filter(|r| r.object.ends_with("/threads"))
        .map(|r| r.self_samples)
        .sum();
    assert_eq!(object.only().samples, own);
    let script = here.rprof("script --no-inline").ok();
    let samples = perf_samples(&script);
    let time = samples[samples.len() / 2].head.clone();
    let time = time
        .split_whitespace()
        .find_map(|w| w.strip_suffix(':')?.parse::<f64>().ok());
    let time = time.expect("a time");
    let before = here.report(&format!("--time ,{time:.6}"));
    let after = here.report(&format!("--time {time:.6},"));
    let sum = before.samples() + after.samples();
    assert!(before.samples() > 0 && after.samples() > 0);
    assert!(
        sum >= all.samples() && sum <= all.samples() + 2,
        "{sum} of {}",
        all.samples()
    );
    assert_eq!(here.report("--cpu 0-1023").samples(), all.samples());
}

/// Process substitution passes a named pipe.
#[test]
fn report_reads_a_named_pipe() {
    needs!(PerfEvents);
    let here = recorded();
    let expected = here.rprof("report --no-inline").ok();
    here.sh("mkfifo pipe").ok();
    let cat = here.sh("exec cat perf.data > pipe").start();
    let piped = here.rprof("report --no-inline -i pipe").ok();
    assert_eq!(piped.out(), expected.out());
    cat.end().exits(0);
}

#[test]
fn report_limits_its_rows() {
    needs!(PerfEvents);
    let here = recorded();
    assert_eq!(here.report("-n 2").only().rows.len(), 2);
    let names = |options: &str, least: f64| -> BTreeSet<String> {
        let report = here.report(options);
        let rows = report.only().rows.iter();
        let many = rows.filter(|row| row.own as f64 >= least * report.only().weight as f64);
        many.map(|row| row.symbol.clone()).collect()
    };
    let limited = names("--no-children --percent-limit 10", 0.0);
    assert_eq!(limited, names("--no-children", 0.1));
    assert!(limited.contains("work_left"), "{limited:?}");
    assert!(names("--no-children", 0.0).len() > limited.len());
}

#[test]
fn report_as_csv_has_the_same_rows() {
    needs!(PerfEvents);
    let here = recorded();
    let csv = here.rprof("report --format csv --no-inline").ok();
    let report = here.report("");
    let rows = csv.out().lines().count() - 1;
    assert_eq!(rows, report.only().rows.len(), "{csv}");
    let weight = report.only().row("work_left").own.to_string();
    let out = csv.out();
    let line = out
        .lines()
        .find(|l| l.contains("work_left"))
        .expect("work_left");
    assert!(
        line.split(',').any(|field| field == weight),
        "{weight} in {line}"
    );
}

#[test]
fn a_recursive_function_counts_once_in_its_total() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("recursion.c"), "100 0.3");
    let report = here.report("");
    let event = report.only();
    let row = event.row("descend");
    assert!(
        row.total <= event.weight,
        "{} of {}",
        row.total,
        event.weight
    );
    assert!(event.total_share("descend") >= event.self_share("bottom"));
    let folded = folded(&here.rprof("collapse").ok());
    let at_bottom = folded.keys().filter(|stack| stack.ends_with(";bottom"));
    let depths: Vec<_> = at_bottom.map(|s| s.matches(";descend").count()).collect();
    assert!(
        !depths.is_empty() && depths.iter().all(|d| *d == 100),
        "{depths:?}"
    );
}

#[test]
fn report_shows_each_event() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.perf_record("-e cpu-clock,page-faults", &c("shares.c"), "0.3");
    let report = here.report("");
    let script = here.perf("script --no-inline").ok();
    let samples = perf_samples(&script);
    assert_eq!(report.events.len(), 2, "events");
    for event in &report.events {
        let by_perf = samples.iter().filter(|s| s.event == event.name).count() as u64;
        assert_eq!(event.samples, by_perf, "samples of {}", event.name);
    }
    let by_perf = here.perf(PERF_REPORT).ok();
    let by_perf = perf_self_samples(&by_perf);
    assert_eq!(by_perf.len(), 2, "events of perf");
    for (event, by_perf) in report.events.iter().zip(by_perf) {
        let by_rprof: u64 = event.self_samples().values().sum();
        assert_eq!(
            by_rprof,
            by_perf.values().sum::<u64>(),
            "samples of {}",
            event.name
        );
    }
    let run = here.rprof("report").ok();
    run.prints("# event cpu-clock")
        .prints("# event page-faults");
}

#[test]
fn report_reads_the_pipe_format_of_perf() {
    needs!(PerfEvents, Perf);
    measured(|| {
        let here = Here::new();
        let record = here.perf("record -q -N -e cpu-clock -F 999 -g -o - --");
        let report = here.rprof("report --format json -i -");
        let run = record.arg(c("shares.c")).arg("0.3").pipe(report);
        run.exits(0);
        let report = Report::parse(&run);
        let share = report.only().self_share("burn_seventy");
        check(share > 0.5, || format!("{share} by\n{run}"))
    });
}
