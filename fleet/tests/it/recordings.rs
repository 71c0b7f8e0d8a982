//! Recordings of real programs by `rprof`.

use std::collections::BTreeMap;
use std::process::Command;

use rprof_testing::{needs, skip};

use crate::support::{Scene, finish, rprof};

/// Returns self and total by name, from a CSV report.
fn sums(csv: &str) -> BTreeMap<String, (u64, u64)> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().expect("a heading");
    let column = |name: &str| {
        heading
            .iter()
            .position(|cell| *cell == name)
            .unwrap_or_else(|| panic!("{heading:?}"))
    };
    let (own, total, symbol) = (column("self"), column("total"), column("symbol"));
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for cells in lines {
        let number = |column: usize| {
            cells[column]
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{cells:?}"))
        };
        let sum = sums.entry(cells[symbol].to_owned()).or_default();
        *sum = (sum.0 + number(own), sum.1 + number(total));
    }
    sums
}

#[test]
fn sums_are_those_of_the_report() {
    needs!(PerfEvents, Tool("gcc"));
    let Some(rprof) = rprof("parquet") else {
        skip(
            "needs rprof with the feature parquet: cargo build -p rprof --features parquet, or RPROF",
        );
        return;
    };
    let here = tempfile::tempdir().expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/shares.c");
    finish(
        Command::new("gcc")
            .args(["-g", "-O1", "-fno-inline", source, "-lm", "-pthread", "-o"])
            .arg(here.path().join("shares")),
    );
    let scene = Scene::empty();
    let mut expected = BTreeMap::new();
    for host in ["a", "b"] {
        let run = |words: &str| {
            let mut command = Command::new(&rprof);
            command.current_dir(here.path()).args(words.split(' '));
            finish(&mut command).0
        };
        run(&format!(
            "record -q -F 997 -g -e cpu-clock:u -o {host}.data -- ./shares 0.3"
        ));
        run(&format!(
            "export -q -i {host}.data --format parquet --service {host} -o {}",
            scene.path().display()
        ));
        for (name, (own, total)) in sums(&run(&format!(
            "report -q -i {host}.data --format csv --sort symbol"
        ))) {
            let sum: &mut (u64, u64) = expected.entry(name).or_default();
            *sum = (sum.0 + own, sum.1 + total);
        }
    }
    assert!(expected.len() > 2, "{expected:?}");
    let found = sums(&scene.run("top -n 100000 --format csv").0);
    assert_eq!(found, expected);
}
