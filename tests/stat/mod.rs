//! `rprof stat`: counts, comparison, and exit status.

mod compare;
mod counts;
mod failures;
mod output;
mod recorded;

use std::path::Path;

use crate::support::{Here, Run, Shell, c};

/// Occurs once for each call of `hit` in `calls.c`.
const HITS: &str = "syscalls:sys_enter_getppid";

/// The program calls `hit` twice as often as `times`.
fn stat_calls(here: &Here, options: &str, times: &str) -> Shell {
    let shell = here.rprof("stat").words(options).arg("-e").arg(HITS);
    shell.arg("--").arg(c("calls.c")).arg(times)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn json_in(path: &Path) -> serde_json::Value {
    json(&std::fs::read_to_string(path).expect("the result"))
}

/// Returns one event in the first run, with the names of its parts.
fn counts(document: &serde_json::Value, event: &str) -> Vec<(String, u64)> {
    let counts = document["commands"][0]["runs"][0]["counts"].as_array();
    let counts = counts.unwrap_or_else(|| panic!("no counts in {document:#}"));
    let of_event = counts.iter().filter(|count| count["event"] == event);
    let found: Vec<(String, u64)> = of_event
        .map(|count| {
            assert_eq!(count["exact"], true, "{count:#}");
            let value = count["value"].as_u64().expect("a count");
            (count["part"].as_str().expect("a part").to_owned(), value)
        })
        .collect();
    assert!(!found.is_empty(), "no {event} in {document:#}");
    found
}

/// Returns the number before the name, as in `perf stat -x,`.
fn perf_count(run: &Run, event: &str) -> u64 {
    let err = run.err();
    let line = err.lines().find(|line| line.contains(event));
    let line = line.unwrap_or_else(|| panic!("no {event} in\n{run}"));
    let field = line.split(',').next().unwrap_or_default();
    field
        .parse()
        .unwrap_or_else(|_| panic!("no count in {line:?}"))
}
