//! `--fail-above`: exit status.

use crate::support::Here;

/// Writes runs where `parse` has these numbers of samples.
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
    here.rprof(SETS).ok();
    here.rprof(&format!("{SETS} --fail-above 80%")).ok();
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
    // For a single test, the other two give the same.
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
    let run = here.rprof("diff old0 new0 --fail-above 5%").ok();
    assert!(
        run.err().contains("undecided at the limit"),
        "{}",
        run.err()
    );
    here.rprof("diff old0 new0 --fail-above 5% --strict")
        .exits(4);
    here.rprof("diff old0 new0 --fail-above 5% --noise 1%")
        .exits(3);
    // Most names differ.
    std::fs::write(
        here.path("other"),
        "main;x 1500\nmain;y 3000\nmain;z 2000\n",
    )
    .unwrap();
    let run = here
        .rprof("diff old0 other --fail-above 5% --noise 1% --strict")
        .exits(4);
    run.prints("# only 0.0 % of one side is in functions that both sides have");
    // The words of the headline and of the reasons agree.
    assert!(!run.out().contains("no verdict"), "{}", run.out());
}

/// Writes eight runs per side with a known rise and spread.
fn with_rise(here: &Here, rise: f64, spread: f64) {
    const Z: [f64; 8] = [-1.42, -0.85, -0.47, -0.15, 0.15, 0.47, 0.85, 1.42];
    for run in 0..8 {
        let sides = [
            ("old", 1.0, Z[3 * run % 8]),
            ("new", 1.0 + rise, Z[(5 * run + 2) % 8]),
        ];
        for (side, factor, z) in sides {
            let all = (1.0 + spread * z) * factor;
            let (alpha, beta) = ((200_000.0 * all) as u64, (80_000.0 * all) as u64);
            let text = format!("main;alpha {alpha}\nmain;beta {beta}\n");
            std::fs::write(here.path(format!("{side}{run}")), text).unwrap();
        }
    }
}

fn eight_runs(options: &str) -> String {
    let side = |name: &str| (0..8).map(|n| format!("{name}{n} ")).collect::<String>();
    format!("diff --base {}--new {}{options}", side("old"), side("new"))
}

struct Said {
    /// First words of the headline.
    word: String,
    verdict: String,
    of_program: String,
    gate: String,
    interval: [f64; 2],
    statuses: [i32; 2],
}

fn said(here: &Here, limit: f64) -> Said {
    let options = format!("--fail-above {}% --scope total", limit * 100.0);
    let run = here
        .rprof(&eight_runs(&format!("{options} --format json")))
        .run();
    let json: serde_json::Value = serde_json::from_str(&run.out()).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let strict = here
        .rprof(&eight_runs(&format!("{options} --strict")))
        .run();
    let headline = text(&json["headline"]);
    assert!(
        strict.out().starts_with(&format!("# {headline}\n")),
        "{strict}"
    );
    let end = |number: usize| json["total"]["interval"][number].as_f64().unwrap();
    Said {
        word: headline.split(':').next().unwrap().to_owned(),
        verdict: text(&json["verdict"]),
        of_program: text(&json["total"]["verdict"]),
        gate: text(&json["gate"]),
        interval: [end(0), end(1)],
        statuses: [run, strict].map(|run| run.code().unwrap()),
    }
}

#[test]
fn every_state_between_equal_and_more_has_its_word_and_status() {
    let here = Here::new();
    let mut words = std::collections::BTreeSet::new();
    for rise in [-0.3_f64, -0.048, -0.02, 0.0, 0.035, 0.048, 0.06, 0.3] {
        for spread in [0.001, 0.004, 0.02, 0.08] {
            // The largest spread is only for hiding small rises.
            if spread > 0.05 && rise.abs() > 0.05 {
                continue;
            }
            with_rise(&here, rise, spread);
            for limit in [0.05, 0.2] {
                let said = said(&here, limit);
                let [low, high] = said.interval;
                let is_inside = 1.0 / (1.0 + limit) < low && high < 1.0 + limit;
                let is_seen = low > 1.0 || high < 1.0;
                let expected = match (is_inside, is_seen) {
                    (true, false) => "unchanged",
                    (true, true) => "below_threshold",
                    (false, false) => "inconclusive",
                    (false, true) if low >= 1.0 + limit => "regressed",
                    (false, true) if high <= 1.0 / (1.0 + limit) => "improved",
                    (false, true) => "may_exceed",
                };
                let cell = format!(
                    "{rise} ± {spread}, limit {limit}: {} {:?}",
                    said.word, said.interval
                );
                assert_eq!(said.of_program, expected, "{cell}");
                let word = &*said.word;
                let (verdict, is_word) = match expected {
                    "unchanged" => ("unchanged", word == "UNCHANGED"),
                    "below_threshold" => ("below_threshold", word.contains(", BELOW ")),
                    "may_exceed" => ("inconclusive", word.contains(", INCONCLUSIVE ABOUT ")),
                    "inconclusive" => ("inconclusive", word == "INCONCLUSIVE"),
                    "regressed" => ("regressed", word == "REGRESSED"),
                    _ => ("improved", word == "IMPROVED"),
                };
                assert!(
                    said.verdict == verdict && is_word,
                    "{cell} {}",
                    said.verdict
                );
                let (gate, statuses) = match expected {
                    "regressed" => ("regressed", [3, 3]),
                    _ if high > 1.0 + limit => ("inconclusive", [0, 4]),
                    _ => ("passed", [0, 0]),
                };
                assert_eq!((&*said.gate, said.statuses), (gate, statuses), "{cell}");
                words.insert(expected);
            }
        }
    }
    assert_eq!(words.len(), 6, "{words:?}");
}
