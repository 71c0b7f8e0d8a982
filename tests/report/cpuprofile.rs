//! V8's CPU profiles: of Node.js, and our own for Chrome's developer tools and VS Code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{Here, Report, Row, c, c_with, needs, wait_until};

const EDGES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/runtimes/edges.js"
);

fn report_of(here: &Here, file: &str) -> Report {
    Report::parse(&here.rprof("report -q --format json -i").arg(file).ok())
}

fn read(here: &Here, file: &str) -> Value {
    let bytes = std::fs::read(here.path(file)).expect("it was written");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Sums functions of different objects.
fn sums(rows: &[Row]) -> BTreeMap<&str, (u64, u64)> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry(&row.symbol).or_default();
        *sum = (sum.0 + row.own, sum.1 + row.total);
    }
    sums
}

/// Returns self times in nanoseconds, by the definition of the format: a sample lasts until the
/// next one.
fn own_times(profile: &Value) -> BTreeMap<String, u64> {
    let list = |key: &str| profile[key].as_array().expect("a list").clone();
    let names: BTreeMap<u64, String> = list("nodes")
        .iter()
        .map(|node| {
            let call = &node["callFrame"];
            let name = match call["functionName"].as_str().expect("a name") {
                "" => "(anonymous)",
                name => name,
            };
            let url = call["url"].as_str().expect("a URL");
            let position = |key: &str| call[key].as_i64().expect("a number") + 1;
            let file = match url.starts_with("node:") {
                true => url,
                false => url.rsplit('/').next().unwrap_or(url),
            };
            let (line, column) = (position("lineNumber"), position("columnNumber"));
            let name = match url {
                "" => name.to_owned(),
                _ => format!("{name} ({file}:{line}:{column})"),
            };
            (node["id"].as_u64().expect("an id"), name)
        })
        .collect();
    let deltas: Vec<i64> = list("timeDeltas")
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    let start = profile["startTime"].as_i64().expect("a time");
    let end = profile["endTime"].as_i64().expect("a time");
    let last = end - start - deltas.iter().sum::<i64>();
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for (nth, id) in list("samples").iter().enumerate() {
        let lasts = deltas.get(nth + 1).copied().unwrap_or(last);
        let name = &names[&id.as_u64().expect("an id")];
        *own.entry(name.clone()).or_default() += 1000 * u64::try_from(lasts).unwrap_or(0);
    }
    own
}

#[test]
fn profiles_of_node_are_read() {
    needs!(Node);
    let here = Here::new();
    let node = "--cpu-prof --cpu-prof-name=node.cpuprofile";
    let node = here.command("node").words(node).arg(EDGES).arg("0.5");
    node.ok();
    let mut theirs = own_times(&read(&here, "node.cpuprofile"));
    theirs.remove("(idle)");
    theirs.remove("(root)");
    theirs.retain(|_, own| *own > 0);
    let report = report_of(&here, "node.cpuprofile");
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for row in &report.only().rows {
        *ours.entry(row.symbol.clone()).or_default() += row.own;
    }
    ours.retain(|_, own| *own > 0);
    assert_eq!(ours, theirs);
    assert!(ours.len() > 5, "{ours:#?}");
    here.rprof("flamegraph -q -i node.cpuprofile -o x.svg").ok();
}

#[test]
fn an_export_has_the_times_of_the_report_to_the_microsecond() {
    needs!(PerfEvents);
    let here = Here::new();
    for program in ["shares.c", "threads.c"] {
        here.record("-F 999 -g -e cpu-clock:u", &c_with(program, &["-g"]), "0.3");
        here.rprof("export -q -o x.cpuprofile").ok();
        let file = read(&here, "x.cpuprofile");
        // The first thread has samples where loading takes long.
        let tids = here.rprof("script -F tid").ok().out();
        let tids: BTreeSet<&str> = tids.lines().map(str::trim).collect();
        assert_eq!(file["rprof"]["threads"], json!(tids.len()));
        assert!(tids.len() >= if program == "threads.c" { 2 } else { 1 });
        // Chrome's developer tools take 0 for a missing time.
        assert!(file["startTime"].as_u64() > Some(0));
        let ticks = file["nodes"].to_string().contains("positionTicks");
        assert!(ticks, "no lines");
        let (recorded, again) = (
            report_of(&here, "perf.data"),
            report_of(&here, "x.cpuprofile"),
        );
        let (recorded, again) = (recorded.only(), again.only());
        let runs = file["samples"].as_array().expect("samples").len() as u64;
        let found = sums(&again.rows);
        for (symbol, (own, total)) in sums(&recorded.rows) {
            if symbol.starts_with('[') {
                continue;
            }
            let theirs = found.get(symbol);
            let (found_own, found_total) = *theirs.unwrap_or_else(|| panic!("no {symbol}"));
            for (ours, theirs) in [(found_own, own), (found_total, total)] {
                assert!(
                    ours.abs_diff(theirs) <= 1000 * runs.min(999),
                    "{symbol}: {ours} {theirs}"
                );
            }
        }
        let rounding = 1000 * tids.len() as u64;
        assert!(again.weight.abs_diff(recorded.weight) < rounding);
    }
}

/// Chromium describes its protocol, with this format.
#[test]
fn an_export_follows_the_protocol_that_chromium_describes() {
    needs!(PerfEvents, Tool("chromium"));
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.3");
    here.rprof("export -q -o x.cpuprofile").ok();
    let chromium = "--headless=new --no-sandbox --disable-gpu --remote-debugging-port=0 --user-data-dir=browser about:blank";
    let _browser = here.command("chromium").words(chromium).start();
    let port = here.path("browser/DevToolsActivePort");
    let mut text = String::new();
    wait_until("Chromium listens", || {
        text = std::fs::read_to_string(&port).unwrap_or_default();
        text.lines().count() > 1
    });
    let url = format!(
        "http://127.0.0.1:{}/json/protocol",
        text.lines().next().unwrap_or_default()
    );
    let mut answer = ureq::get(&url).call().expect("an answer");
    let protocol = answer.body_mut().read_to_string().expect("text");
    let protocol: Value = serde_json::from_str(&protocol).expect("JSON");
    let file = read(&here, "x.cpuprofile");
    let mut seen = 0;
    check(&protocol, "Profiler.Profile", &file, &mut seen);
    assert!(seen > 100, "{seen} values checked");
    let mut wrong = file.clone();
    wrong["nodes"][0]["callFrame"]["lineNumber"] = json!("1");
    let found = std::panic::catch_unwind(|| check(&protocol, "Profiler.Profile", &wrong, &mut 0));
    assert!(found.is_err(), "the check cannot fail");
}

/// Checks a value against a type such as `Profiler.Profile`.
fn check(protocol: &Value, name: &str, value: &Value, seen: &mut usize) {
    let (domain, id) = name.split_once('.').expect("a domain");
    let find = |list: &Value, key: &str, name: &str| {
        let found = list.as_array().expect("a list").iter();
        let mut found = found.filter(|entry| entry[key] == name);
        found.next().unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let types = find(&protocol["domains"], "domain", domain)["types"].clone();
    let described = find(&types, "id", id);
    check_as(protocol, domain, &described, value, seen);
}

fn check_as(protocol: &Value, domain: &str, described: &Value, value: &Value, seen: &mut usize) {
    *seen += 1;
    if let Some(name) = described["$ref"].as_str() {
        let name = match name.contains('.') {
            true => name.to_owned(),
            false => format!("{domain}.{name}"),
        };
        return check(protocol, &name, value, seen);
    }
    match described["type"].as_str().expect("a type") {
        "object" => {
            for property in described["properties"].as_array().into_iter().flatten() {
                let name = property["name"].as_str().expect("a name");
                match value.get(name) {
                    Some(value) => check_as(protocol, domain, property, value, seen),
                    None => assert_eq!(property["optional"], json!(true), "{name} is missing"),
                }
            }
        }
        "array" => {
            for item in value.as_array().expect("a list") {
                check_as(protocol, domain, &described["items"], item, seen);
            }
        }
        "integer" => assert!(value.is_i64() || value.is_u64(), "{value}"),
        "number" => assert!(value.is_number(), "{value}"),
        "string" => assert!(value.is_string(), "{value}"),
        other => panic!("type {other}"),
    }
}
