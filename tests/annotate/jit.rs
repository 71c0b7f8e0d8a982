//! JIT code from a jitdump.

use super::Annotated;
use crate::support::{Here, needs};

const SCRIPT: &str = "function hot(n) { let sum = 0; for (let i = 0; i < n; i++) sum = (sum * 31 + i) | 0; return sum; }\n\
     const end = process.cpuUsage().user + 1e6;\n\
     while (process.cpuUsage().user < end) hot(100000);\n";

#[test]
fn javascript_is_annotated_with_the_code_of_its_jitdump() {
    needs!(PerfEvents, Node, X86_64);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), SCRIPT).expect("a file");
    here.rprof("record -F 999 -g -e cpu-clock:u -- node --perf-prof hot.js")
        .ok();
    let run = here.rprof("annotate --format json *hot*").ok();
    let found = Annotated::of(&run);
    let own: u64 = found
        .instructions()
        .filter_map(|i| i["self_samples"].as_u64())
        .sum();
    assert!(own > 100, "{own} samples in\n{run}");
    let texts: Vec<&str> = found
        .instructions()
        .filter_map(|i| i["text"].as_str())
        .collect();
    assert!(
        texts
            .iter()
            .any(|text| text.starts_with("imul") || text.contains("shl")),
        "{texts:?}"
    );
    let loops = found
        .parts()
        .filter(|part| part["loops"].as_array().is_some_and(|l| !l.is_empty()));
    assert!(loops.count() > 0, "{run}");
}

#[test]
fn a_recording_that_keeps_all_has_the_code_of_its_jitdump() {
    needs!(PerfEvents, Node, X86_64);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), SCRIPT).expect("a file");
    here.rprof("record --keep all -F 999 -g -e cpu-clock:u -- node --perf-prof hot.js")
        .ok();
    let by_file = here.rprof("annotate --format json *hot*").ok();
    assert!(Annotated::of(&by_file).instructions().count() > 5);
    let dumps = std::fs::read_dir(here.path(".")).expect("a folder");
    let dumps = dumps.map(|entry| entry.expect("an entry").path());
    let dumps: Vec<_> = dumps
        .filter(|path| path.extension().is_some_and(|it| it == "dump"))
        .collect();
    assert!(!dumps.is_empty(), "node wrote no jitdump");
    for dump in dumps {
        std::fs::remove_file(dump).expect("removed");
    }
    let by_copy = here.rprof("annotate --format json *hot*").ok();
    assert_eq!(by_copy.to_string(), by_file.to_string());
}
