//! Compares sums in the page with the command line.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::browser::Browser;
use crate::support::{Here, Report, c, needs};
use rprof_testing::Random;

type Sums = BTreeMap<(String, String), (u64, u64)>;

/// Unnamed parts of an object with different reasons are separate rows.
fn of_report(report: &Report) -> Sums {
    let mut sums = Sums::new();
    for row in report.events.iter().flat_map(|event| &event.rows) {
        let sum = sums
            .entry((row.symbol.clone(), row.object.clone()))
            .or_default();
        *sum = (sum.0 + row.own, sum.1 + row.total);
    }
    sums
}

fn of_page(browser: &Browser) -> Sums {
    let mut sums = Sums::new();
    for (own, total, function, object) in browser.functions() {
        let sum = sums.entry((function, object)).or_default();
        *sum = (sum.0 + own, sum.1 + total);
    }
    sums
}

/// Returns a random filter: as the page's state, and as options.
fn filter(browser: &Browser, random: &mut Random) -> (Value, Vec<String>) {
    let pick = |script: &str, random: &mut Random| -> Value {
        let all = browser.run(script);
        let all = all.as_array().expect("a list");
        all[random.index(all.len())].clone()
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    // The page filters by function, the command line by name, so names must be unambiguous
    // (`_start` is not).
    let functions = "const times = new Map();
        for (const name of rprof.profile.names) times.set(name, (times.get(name) ?? 0) + 1);
        return rprof.figures.sorted()
        .filter(fn => times.get(rprof.profile.names[fn]) === 1 && rprof.profile.names[fn] !== '' && !/[*?,]/.test(rprof.profile.names[fn]))
        .map(fn => [fn, rprof.profile.names[fn], rprof.profile.meta.objects[rprof.profile.objectOf[fn]], rprof.profile.objectOf[fn]])";
    match random.index(6) {
        0 => {
            let task = pick("return [...rprof.profile.tasks.tid]", random);
            (
                json!({"kind": "tid", "id": task}),
                vec!["--tid".into(), task.to_string()],
            )
        }
        1 => {
            let name = pick(
                "return rprof.profile.meta.comms.map((name, id) => [id, name])",
                random,
            );
            (
                json!({"kind": "comm", "id": name[0]}),
                vec!["--comm".into(), text(&name[1])],
            )
        }
        2 => {
            let cpu = pick(
                "return [...new Set(rprof.profile.rows.cpu)].map(cpu => cpu - 1)",
                random,
            );
            (
                json!({"kind": "cpu", "id": cpu}),
                vec!["--cpu".into(), cpu.to_string()],
            )
        }
        3 => {
            let function = pick(functions, random);
            (
                json!({"kind": "has", "id": function[0]}),
                vec!["--focus".into(), text(&function[1])],
            )
        }
        4 => {
            let function = pick(functions, random);
            (
                json!({"kind": "leaf", "id": function[0]}),
                vec!["--symbol".into(), text(&function[1])],
            )
        }
        _ => {
            let function = pick(functions, random);
            (
                json!({"kind": "dso", "id": function[3]}),
                vec!["--dso".into(), text(&function[2])],
            )
        }
    }
}

#[test]
fn sums_of_fifty_random_selections_are_those_of_the_report() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    here.record("-g -F 2500", &c("threads.c"), "0.3");
    here.rprof("html").ok();
    let browser = Browser::start(&here, 1300, 800);
    random_selections(&here, &browser, 50);
}

/// Compares the page with the report, with random filters and times.
pub(super) fn random_selections(here: &Here, browser: &Browser, rounds: usize) {
    browser.open(&here.path("profile.html"));
    let mut random = Random::new(19);
    let (mut empty, mut filled) = (0, 0);
    for _ in 0..rounds {
        browser.run("rprof.change({filters: [], time: null, bySamples: false})");
        let mut filters = Vec::new();
        let mut words = Vec::new();
        for _ in 0..random.below(3) {
            let (filter, more) = filter(browser, &mut random);
            if !filters
                .iter()
                .any(|other: &Value| other["kind"] == filter["kind"])
            {
                filters.push(filter);
                words.extend(more);
            }
        }
        let mut time = Value::Null;
        if random.below(2) == 0 {
            let bounds = browser.run(
                "const bounds = [], {time, n} = rprof.profile.rows;
                for (let i = 1; i < n; i++) if (time[i] - time[i - 1] > 20) bounds.push(Math.round((time[i] + time[i - 1]) / 2));
                return bounds",
            );
            let bounds = bounds.as_array().expect("a list");
            let (a, b) = (random.index(bounds.len()), random.index(bounds.len()));
            let [from, to] = [a.min(b), a.max(b)].map(|at| bounds[at].as_u64().expect("ticks"));
            if from < to {
                time = json!([from, to]);
                let seconds =
                    |ticks: u64| format!("+{}.{:06}s", ticks / 1_000_000, ticks % 1_000_000);
                words.extend([
                    "--time".to_owned(),
                    format!("{},{}", seconds(from), seconds(to)),
                ]);
            }
        }
        let by_samples = random.below(4) == 0;
        if by_samples {
            words.extend(["--weight".to_owned(), "samples".to_owned()]);
        }
        let change = json!({"filters": filters, "time": time, "bySamples": by_samples});
        browser.run_with("rprof.change(arguments[0])", std::slice::from_ref(&change));
        let mut report = here.rprof("report --format json -q");
        for word in &words {
            report = report.arg(word);
        }
        let report = Report::of_selection(&report.run());
        let (page, report) = (of_page(browser), of_report(&report));
        assert_eq!(page, report, "{change} {words:?}");
        match page.is_empty() {
            true => empty += 1,
            false => filled += 1,
        }
        // The inverted tree's roots are the self values.
        let roots = browser.run(
            "rprof.change({inverted: true}); const {tree, total} = rprof.figures.flame(), roots = [];
            for (let i = 1; i < tree.end[0]; i = tree.end[i]) roots.push(total[i]);
            const sums = [rprof.figures.whole, roots.reduce((a, b) => a + b, 0)]; rprof.change({inverted: false}); return sums",
        );
        assert_eq!(roots[0], roots[1], "{change}");
    }
    assert!(
        filled > empty,
        "{filled} selections with samples, {empty} without"
    );
    browser.is_content();
}

#[test]
fn a_comparison_has_the_sums_of_both_sides() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    here.record("-g -F 999", &c("shares.c"), "0.2");
    here.rprof("html --no-timeline").ok();
    std::fs::rename(here.path("perf.data"), here.path("old.data")).expect("renamed");
    here.record("-g -F 999", &c("threads.c"), "0.2");
    here.rprof("html --diff old.data perf.data -o diff.html")
        .ok();
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("diff.html"));
    let sides = browser.run("return rprof.tsv()");
    let sides = sides.as_str().expect("a table");
    let column = |name: &str, at: usize| -> u64 {
        let rows = sides
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let rows = rows.filter(|cells| cells[4] == name);
        rows.map(|cells| cells[at].parse::<u64>().expect("a number"))
            .sum()
    };
    let sums = |options: &str, name: &str| {
        let report = here.report(options);
        let rows = report.events.iter().flat_map(|event| &event.rows);
        let rows: Vec<_> = rows.filter(|row| row.symbol == name).collect();
        rows.iter().map(|row| row.own).sum::<u64>()
    };
    for name in ["work_left", "work_right", "burn_seventy"] {
        assert_eq!(column(name, 0), sums("-i perf.data", name), "{name} now");
        assert_eq!(column(name, 2), sums("-i old.data", name), "{name} before");
    }
    // A removed function has the width of both sides.
    let gone = "const {tree, total, baseTotal} = rprof.figures.flame();
        return [...tree.fn].some((fn, i) => rprof.profile.nameOf(fn) === 'burn_seventy' && total[i] === 0 && baseTotal[i] > 0
            && [...rprof.flame.boxes.node.subarray(0, rprof.flame.boxes.n)].includes(i))";
    browser.run("rprof.change({width: 'both'})");
    assert_eq!(browser.run(gone), true);
    browser.is_content();
}

#[test]
fn a_comparison_pairs_functions_as_diff_does_when_the_program_has_another_name() {
    needs!(PerfEvents, Tool("chromium"), Tool("chromedriver"));
    let here = Here::new();
    for (side, seconds) in [("old", "0.1 0.2 0.1"), ("new", "0.3 0.2 0.1")] {
        let program = here.copy(&c("knob.c"), format!("app-{side}"));
        here.record("-g -F 999 -e cpu-clock", &program, seconds);
        std::fs::rename(here.path("perf.data"), here.path(side)).expect("renamed");
    }
    here.rprof("html --diff old new -o diff.html").ok();
    let browser = Browser::start(&here, 1300, 800);
    browser.open(&here.path("diff.html"));
    let table = browser.run("return rprof.tsv()");
    let table = table.as_str().expect("a table");
    let rows = table.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| cells[at].parse::<u64>().expect("a number");
        (cells[4].to_owned(), [number(2), number(0)])
    });
    let rows: Vec<(String, [u64; 2])> = rows.collect();
    let knobs: Vec<_> = rows.iter().filter(|(name, _)| name == "knob_f").collect();
    let has_both = |(_, pair): &&(String, [u64; 2])| pair.iter().all(|amount| *amount > 0);
    assert!(
        knobs.len() == 1 && knobs.iter().all(has_both),
        "one function with both sides: {knobs:?}"
    );
    // Names of different builds differ per side, so this compares pairs of amounts.
    let mut of_page: Vec<[u64; 2]> = (rows.iter())
        .filter(|(name, pair)| name != "[unknown]" && *pair != [0, 0])
        .map(|(_, pair)| *pair)
        .collect();
    let json = here.rprof("diff old new --all --format json").ok().out();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let functions = json["functions"].as_array().expect("rows");
    let mut of_diff: Vec<[u64; 2]> = (functions.iter())
        .filter(|row| row["function"].is_string())
        .map(|row| ["old", "new"].map(|side| row["self"][side].as_f64().expect("an amount") as u64))
        .filter(|pair| *pair != [0, 0])
        .collect();
    of_page.sort_unstable();
    of_diff.sort_unstable();
    assert_eq!(of_page, of_diff);
    browser.is_content();
}
