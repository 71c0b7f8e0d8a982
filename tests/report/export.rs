//! `rprof export`: profiles for other tools, read by those tools.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Here, Report, c, c_with, cxx, needs, pprof};

/// Self and total nanoseconds by name.
type Shares = BTreeMap<String, (u64, u64)>;

fn by_pprof(here: &Here, options: &str, file: &str) -> Shares {
    let tool = pprof().expect("it was asked for");
    let command = here
        .command(&tool)
        .env("PPROF_TMPDIR", "tmp")
        .words(options);
    let run = command
        .words("-top -nodecount=0 -nodefraction=0 -unit=ns")
        .arg(file)
        .ok();
    let out = run.out();
    let rows = out
        .lines()
        .skip_while(|line| !line.contains("flat%"))
        .skip(1);
    let ns = |text: &str| {
        text.trim_end_matches("ns")
            .parse()
            .unwrap_or_else(|_| panic!("{text:?} in\n{run}"))
    };
    rows.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let name = words[5..]
            .join(" ")
            .replace(" (inline)", "")
            .replace(" (partial-inline)", "");
        (name, (ns(words[0]), ns(words[3])))
    })
    .collect()
}

fn by_report(here: &Here) -> Shares {
    // Exports have inlined calls, also in libraries with debug information.
    let report = Report::parse(&here.rprof("report --format json").ok());
    let mut shares = Shares::new();
    for row in &report.only().rows {
        let (own, total) = shares.entry(row.symbol.clone()).or_default();
        *own += row.own;
        *total += row.total;
    }
    shares
}

fn firefox(here: &Here, options: &str) -> Value {
    let export = here.rprof("export -q --format firefox -o -").words(options);
    let bytes = export.ok();
    serde_json::from_reader(flate2::read::GzDecoder::new(bytes.bytes())).expect("JSON")
}

#[test]
fn pprof_has_the_figures_of_the_report() {
    needs!(PerfEvents, Pprof);
    for (program, args) in [
        (c("shares.c"), "0.3"),
        (c("threads.c"), "0.2"),
        (cxx("names.cpp"), ""),
    ] {
        let here = Here::new();
        here.record("-F 999 -g -e cpu-clock:u", &program, args);
        here.rprof("export").ok().says("wrote profile.pb.gz");
        // pprof prints at most two decimals.
        let (pprof, mut report) = (by_pprof(&here, "", "profile.pb.gz"), by_report(&here));
        assert!(
            !report.is_empty(),
            "there are samples of {}",
            program.display()
        );
        // pprof shows unnamed functions as their objects.
        let unnamed = report.remove("[unknown]").unwrap_or_default();
        for (name, shares) in &report {
            assert_eq!(pprof.get(name), Some(shares), "{name} of {pprof:#?}");
        }
        let others: u64 = (pprof.iter())
            .filter(|(name, _)| !report.contains_key(*name))
            .map(|(_, s)| s.0)
            .sum();
        assert_eq!(others, unnamed.0, "{pprof:#?}");
    }
}

#[test]
fn one_recording_makes_one_pprof() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
    let first = here.rprof("export -q -o - --format pprof").ok();
    let second = here.rprof("export -q -o - --format pprof").ok();
    assert_eq!(first.bytes(), second.bytes());
    assert!(first.bytes().starts_with(&[0x1f, 0x8b]));
    here.rprof("export -q -o a.pb.gz").ok();
    let same = by_pprof(&here, "-diff_base a.pb.gz", "a.pb.gz");
    assert!(same.values().all(|shares| *shares == (0, 0)), "{same:#?}");
}

#[test]
fn pprof_lists_the_lines_that_ran() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    here.record(
        "-F 999 -g -e cpu-clock:u",
        &c_with("shares.c", &["-g"]),
        "0.3",
    );
    here.rprof("export").ok();
    let tool = pprof().expect("it was asked for");
    let run = here.command(&tool).words("-raw profile.pb.gz").ok();
    // Has functions, files, lines and inlined calls.
    run.prints("[FN][FL][LN][IN]")
        .prints("burn_seventy")
        .prints("shares.c:");
    run.prints("samples/count cpu/nanoseconds[dflt]")
        .prints("comm:[shares]");
    let begins = include_str!("../../fixtures/shares.c")
        .lines()
        .position(|line| line.contains("void burn_seventy("));
    let begins = begins.expect("it is defined there") + 1;
    let out = run.out();
    let line = out.lines().find(|line| line.contains(" burn_seventy "));
    let line = line.unwrap_or_else(|| panic!("{run}"));
    assert!(
        line.contains(&format!(" s={begins}(")),
        "{line}, and it begins at {begins}"
    );
}

#[test]
fn firefox_has_the_time_of_each_function() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("threads.c"), "0.2");
    let json = firefox(&here, "");
    let shared = &json["shared"];
    let column =
        |table: &str, name: &str| shared[table][name].as_array().expect("a column").clone();
    let (frames, funcs, names) = (
        column("stackTable", "frame"),
        column("frameTable", "func"),
        column("funcTable", "name"),
    );
    let strings = shared["stringArray"].as_array().expect("strings");
    let at =
        |list: &[Value], index: &Value| list[index.as_u64().expect("an index") as usize].clone();
    let mut own: BTreeMap<String, f64> = BTreeMap::new();
    let threads = json["threads"].as_array().expect("threads");
    assert!(threads.len() >= 2, "{} threads", threads.len());
    for thread in threads {
        let samples = &thread["samples"];
        let weights = samples["weight"].as_array().expect("weights");
        for (stack, weight) in samples["stack"]
            .as_array()
            .expect("stacks")
            .iter()
            .zip(weights)
        {
            let name = at(&names, &at(&funcs, &at(&frames, stack)));
            let name = at(strings, &name).as_str().expect("a name").to_owned();
            *own.entry(name).or_default() += weight.as_f64().expect("a weight");
        }
    }
    for (name, (weight, _)) in by_report(&here) {
        if weight > 0 && name != "[unknown]" {
            let ms = own.get(&name).copied().unwrap_or_default();
            assert!(
                (ms - weight as f64 / 1e6).abs() < 1e-6 * ms.max(1.0),
                "{name}: {ms} ms, {weight} ns"
            );
        }
    }
}

#[test]
fn speedscope_has_each_thread_in_time() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("threads.c"), "0.2");
    here.rprof("export -o x.speedscope.json").ok();
    let text = std::fs::read_to_string(here.path("x.speedscope.json")).expect("it was written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let frames = json["shared"]["frames"].as_array().expect("frames");
    let profiles = json["profiles"].as_array().expect("profiles");
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for profile in profiles {
        assert_eq!(
            (&profile["type"], &profile["unit"]),
            (&"sampled".into(), &"nanoseconds".into())
        );
        let list = |name: &str| profile[name].as_array().expect("a list").clone();
        let (stacks, weights) = (list("samples"), list("weights"));
        assert_eq!(stacks.len(), weights.len());
        let total: u64 = weights.iter().filter_map(Value::as_u64).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(total));
        for (stack, weight) in stacks.iter().zip(&weights) {
            if let Some(leaf) = stack.as_array().and_then(|stack| stack.last()?.as_u64()) {
                let name = frames[leaf as usize]["name"].as_str().expect("a name");
                *own.entry(name.to_owned()).or_default() += weight.as_u64().expect("a weight");
            }
        }
    }
    let report = here.report("");
    let event = report.only();
    assert_eq!(own.values().sum::<u64>(), event.weight);
    for name in ["work_left", "work_right"] {
        assert_eq!(own.get(name), Some(&event.row(name).own), "{own:#?}");
    }
    let mut known = std::collections::BTreeSet::new();
    assert!(
        frames.iter().all(|frame| known.insert(frame.to_string())),
        "{frames:#?}"
    );
}

#[test]
fn the_name_of_the_output_tells_the_format() {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), "main;work 12\nmain 3\n")
        .expect("cannot write folded stacks");
    here.rprof("export x.folded -o out.folded").ok();
    assert_eq!(
        std::fs::read_to_string(here.path("out.folded")).expect("it was written"),
        "main 3\nmain;work 12\n"
    );
    // The message says what folded stacks lack.
    here.rprof("export x.folded -o out.pb.gz")
        .ok()
        .says("no addresses");
    here.rprof("export x.folded -o out.speedscope.json")
        .ok()
        .says("no times");
    here.rprof("export x.folded -o out.txt")
        .exits(2)
        .says(".speedscope.json");
    assert!(!here.path("out.txt").exists());
}

#[test]
fn samples_have_the_labels_that_are_asked_for() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("threads.c"), "0.2");
    let tool = pprof().expect("it was asked for");
    let raw = |labels: &str| {
        here.rprof("export -q -o x.pb.gz --labels").arg(labels).ok();
        here.command(&tool).words("-raw x.pb.gz").ok()
    };
    let all = raw("thread,process,pid,tid,cpu,mode");
    for label in [
        "comm:[busy-left]",
        "process:[threads]",
        "mode:[user]",
        "pid:[",
        "tid:[",
        "cpu:[",
    ] {
        all.prints(label);
    }
    assert!(!raw("none").out().contains("comm:["));
    let sums = |labels: &str| -> u64 {
        raw(labels);
        by_pprof(&here, "", "x.pb.gz").values().map(|s| s.0).sum()
    };
    assert_eq!(sums("none"), sums("cpu,tid"));
    here.rprof("export --labels pid -o x.folded")
        .exits(2)
        .says("--labels is for pprof and otlp");
}

#[test]
fn times_and_losses_go_along() {
    needs!(PerfEvents);
    let here = Here::new();
    // The clock may have been adjusted by milliseconds.
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = || now().expect("after 1970").as_secs_f64() * 1e3;
    let before = now();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.1");
    let after = now();
    let json = firefox(&here, "");
    let start = json["meta"]["startTime"].as_f64().expect("milliseconds");
    assert!(
        (before - 100.0..after + 100.0).contains(&start),
        "{start} from {before} to {after}"
    );
    if let Some(tool) = pprof() {
        here.rprof("export -q -o x.pb.gz").ok();
        let raw = here.command(&tool).words("-raw x.pb.gz").ok();
        let year = here
            .command("date")
            .words("-d")
            .arg(format!("@{}", start / 1e3))
            .arg("+Time: %Y-")
            .ok();
        raw.prints(year.out().trim());
    }
    assert_eq!(json["meta"]["markerSchema"][0]["name"], "LostRecords");
}

#[test]
fn samples_count_as_one_where_it_is_asked_for() {
    needs!(PerfEvents, Pprof);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("threads.c"), "0.2");
    let report = here.report("--weight samples");
    let (count, left) = (report.samples(), report.only().row("work_left").own);
    let json = firefox(&here, "--weight samples");
    let threads = json["threads"].as_array().expect("threads");
    let weights = threads.iter().flat_map(|thread| {
        assert_eq!(thread["samples"]["weightType"], "samples");
        thread["samples"]["weight"].as_array().expect("weights")
    });
    assert_eq!(weights.filter_map(Value::as_u64).sum::<u64>(), count);
    let export = "export -q --weight samples -o";
    let run = here.rprof(export).words("- --format speedscope").ok();
    let json: Value = serde_json::from_slice(run.bytes()).expect("JSON");
    let profiles = json["profiles"].as_array().expect("profiles");
    let ends = profiles.iter().map(|profile| {
        assert_eq!(profile["unit"], "none");
        profile["endValue"].as_u64().expect("a sum")
    });
    assert_eq!(ends.sum::<u64>(), count);
    here.rprof(export).words("x.pb.gz").ok();
    let tool = pprof().expect("it was asked for");
    let top = here
        .command(&tool)
        .env("PPROF_TMPDIR", "tmp")
        .words("-top x.pb.gz")
        .ok();
    top.prints("Type: samples");
    let row = top.out();
    let row = row.lines().find(|line| line.ends_with(" work_left"));
    let own = row.and_then(|row| row.split_whitespace().next());
    assert_eq!(own, Some(left.to_string().as_str()), "{top}");
}
