//! `rprof report -g`: callers and callees below the table rows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Here, c, folded, needs};

/// Returns weights next to a function in its trees, by name, of all objects.
fn next_to(report: &Value, symbol: &str) -> BTreeMap<String, u64> {
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let mut sums = BTreeMap::new();
    for row in rows.iter().filter(|row| row["symbol"] == symbol) {
        let tree = row["tree"]
            .as_array()
            .unwrap_or_else(|| panic!("a tree in {row:#}"));
        for node in tree.iter().filter(|node| node["depth"] == 1) {
            let name = node["symbol"].as_str().expect("a name").to_owned();
            *sums.entry(name).or_default() += node["weight"].as_u64().expect("a weight");
        }
    }
    sums
}

#[test]
fn trees_have_what_the_stacks_have() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("recursion.c"), "");
    trees_agree(&here, "perf.data");
    let text = "t;a;b;c 5\nt;a;b 2\nt;a;c;b;c 3\nt;d;c;c;b 7\nt;d 1\n";
    std::fs::write(here.path("x.folded"), text).expect("cannot write folded stacks");
    trees_agree(&here, "x.folded");
}

fn trees_agree(here: &Here, file: &str) {
    let stacks = folded(&here.rprof("collapse").arg(file).ok());
    assert!(!stacks.is_empty());
    let tree = |options: &str| -> Value {
        let run = here
            .rprof("report --format json")
            .words(options)
            .arg("-i")
            .arg(file)
            .ok();
        serde_json::from_slice(run.bytes()).expect("JSON")
    };
    let (callers, callees) = (tree("-g callee,0"), tree("--children -g caller,0"));
    // By leaf and direct caller, and by outermost activation and its callee.
    let mut above: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut below: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (stack, weight) in &stacks {
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        if let [.., caller, leaf] = frames[..] {
            *above.entry((leaf, caller)).or_default() += weight;
        }
        for (at, pair) in frames.windows(2).enumerate() {
            if !frames[..at].contains(&pair[0]) {
                *below.entry((pair[0], pair[1])).or_default() += weight;
            }
        }
    }
    assert!(!above.is_empty() && below.len() > 2, "{stacks:#?}");
    for (edges, report) in [(above, &callers), (below, &callees)] {
        for ((row, next), weight) in edges {
            let known = next_to(report, row).get(next).copied();
            assert_eq!(known, Some(weight), "{next} next to {row} in {report:#}");
        }
    }
}

#[test]
fn trees_are_drawn_below_their_rows() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
    let run = here.rprof("report -g -n 1").ok();
    let out = run.out();
    let row = out
        .lines()
        .position(|line| line.contains("burn_seventy"))
        .expect("the row");
    let tree = out.lines().nth(row + 1).expect("a line below");
    assert!(
        tree.trim_start().starts_with("└─ ") && tree.contains(" ← main"),
        "{run}"
    );
    // As in perf, a file may follow -g.
    assert_eq!(here.rprof("report -g perf.data -n 1").ok().out(), out);
    let downwards = here.rprof("report --children -g -n 100").ok();
    downwards.prints(" → ");
    assert!(!here.rprof("report -g none -n 1").ok().out().contains('←'));
    here.rprof("report -g upwards,1")
        .exits(2)
        .says("caller or callee");
}
