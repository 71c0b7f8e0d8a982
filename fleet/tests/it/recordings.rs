//! Recordings of real programs by `rprof`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rprof_testing::{needs, skip};

use crate::support::{NO_PROGRAMS, Scene, finish, program};

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
    let (Some(rprof), Some(agent)) = (program("rprof"), program("rprof-agent")) else {
        return skip(NO_PROGRAMS);
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
        let run = |program: &Path, words: &str| {
            let mut command = Command::new(program);
            command.current_dir(here.path()).args(words.split(' '));
            finish(&mut command).0
        };
        let record = format!("record -q -F 997 -g -e cpu-clock:u -o {host}.data -- ./shares 0.3");
        run(&rprof, &record);
        let folder = scene.path().display();
        let export = format!("export -q {host}.data --service {host} -o {folder}");
        run(&agent, &export);
        let report = format!("report -q -i {host}.data --format csv --sort symbol");
        for (name, (own, total)) in sums(&run(&rprof, &report)) {
            let sum: &mut (u64, u64) = expected.entry(name).or_default();
            *sum = (sum.0 + own, sum.1 + total);
        }
    }
    assert!(expected.len() > 2, "{expected:?}");
    let found = sums(&scene.run("top -n 100000 --format csv").0);
    assert_eq!(found, expected);
}
