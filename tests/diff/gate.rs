//! `--fail-above`: what the exit status says.

use crate::support::Here;

/// Runs of a program in which `parse` takes so many samples.
fn with_runs(sides: &[(&str, [u64; 3])]) -> Here {
    let here = Here::new();
    for (name, runs) in sides {
        for (number, parse) in runs.iter().enumerate() {
            let noise = number as u64 * 7;
            let text = format!(
                "main;parse {parse}\nmain;a {}\nmain;b {}\nmain;c {}\n",
                3000 + noise,
                2000 - noise,
                1500 + 2 * noise
            );
            std::fs::write(here.path(format!("{name}{number}")), text).unwrap();
        }
    }
    here
}

const SETS: &str = "diff --base old0 old1 old2 --new new0 new1 new2";

#[test]
fn what_takes_more_fails_with_3() {
    let here = with_runs(&[("old", [1000, 1010, 990]), ("new", [1500, 1490, 1510])]);
    let run = here.rprof(&format!("{SETS} --fail-above 5%")).exits(3);
    assert!(run.out().starts_with("# REGRESSED"), "{}", run.out());
    assert!(
        run.err().contains("failed above 5 %") && run.err().contains("parse"),
        "{}",
        run.err()
    );
    // Without the limit, it is shown and nothing fails; above a higher one, it passes.
    here.rprof(SETS).ok();
    here.rprof(&format!("{SETS} --fail-above 80%")).ok();
    // The other way round it takes less.
    let back = "diff --base new0 new1 new2 --new old0 old1 old2 --fail-above 5%";
    let run = here.rprof(back).ok();
    assert!(run.out().starts_with("# IMPROVED"), "{}", run.out());
}

#[test]
fn what_a_false_finding_is_can_be_chosen() {
    let here = with_runs(&[("old", [1000, 1010, 990]), ("new", [1500, 1490, 1510])]);
    let p = |correction: &str| {
        let line = format!("{SETS} --fail-above 5% --format json --correction {correction}");
        let run = here.rprof(&line).exits(3);
        let json: serde_json::Value = serde_json::from_str(&run.out()).unwrap();
        let rows = json["functions"].as_array().unwrap().iter();
        let parse = rows.clone().find(|row| row["function"] == "parse").unwrap();
        parse["self"]["visible"].as_f64().unwrap()
    };
    // The stricter one would have seen less; a test that stands alone has the same limit by the other two.
    assert!(p("by") > p("bh"), "{} {}", p("by"), p("bh"));
    assert_eq!(p("holm").to_bits(), p("bh").to_bits());
    here.rprof(&format!("{SETS} --correction none"))
        .exits(2)
        .says("bh, by, holm");
}

#[test]
fn equal_runs_pass() {
    let here = with_runs(&[("old", [1000, 1010, 990]), ("new", [1003, 1005, 996])]);
    let run = here.rprof(&format!("{SETS} --fail-above 5% --strict")).ok();
    assert!(run.err().is_empty(), "{}", run.err());
}

#[test]
fn what_cannot_be_told_passes_unless_strict() {
    let here = with_runs(&[("old", [1000, 1010, 990]), ("new", [1500, 1490, 1510])]);
    // One run a side.
    let run = here.rprof("diff old0 new0 --fail-above 5%").ok();
    assert!(run.err().contains("cannot be told"), "{}", run.err());
    here.rprof("diff old0 new0 --fail-above 5% --strict")
        .exits(4);
    here.rprof("diff old0 new0 --fail-above 5% --noise 1%")
        .exits(3);
    // Names that hardly match: no verdict.
    std::fs::write(
        here.path("other"),
        "main;x 1500\nmain;y 3000\nmain;z 2000\n",
    )
    .unwrap();
    let run = here
        .rprof("diff old0 other --fail-above 5% --noise 1% --strict")
        .exits(4);
    assert!(run.out().contains("no verdict"), "{}", run.out());
}
