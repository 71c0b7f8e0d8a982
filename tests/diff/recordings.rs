//! Compares recordings of a program where one function takes four times as long.
//!
//! The program measures its work by its CPU clock. Tolerances are a factor of two.

use serde_json::Value;

use crate::support::{Here, c, needs};

/// CPU seconds of the functions.
const OLD: &str = "0.1 0.2 0.2";
const NEW: &str = "0.4 0.2 0.2";

fn recorded() -> Here {
    let here = Here::new();
    for (name, seconds) in [("old.data", OLD), ("new.data", NEW)] {
        here.record("-F 999 -g -e cpu-clock", &c("knob.c"), seconds);
        std::fs::rename(here.path("perf.data"), here.path(name)).unwrap();
    }
    here
}

fn row<'j>(json: &'j Value, function: &str) -> &'j Value {
    let rows = json["functions"].as_array().unwrap();
    let found = rows.iter().find(|row| row["function"] == function);
    found.unwrap_or_else(|| panic!("no {function}: {json:#}"))
}

fn diff(here: &Here, arguments: &str) -> Value {
    let run = here.rprof(&format!("diff --format json {arguments}")).ok();
    serde_json::from_str(&run.out()).unwrap()
}

#[test]
fn what_takes_more_is_found_on_real_recordings() {
    needs!(PerfEvents);
    let here = recorded();
    // The machine may be busy.
    let json = diff(&here, "old.data new.data --noise 5%");
    let f = row(&json, "knob_f");
    assert_eq!(f["self"]["verdict"], "regressed", "{f:#}");
    for (side, seconds) in [("old", 0.1), ("new", 0.4)] {
        let found = f["self"][side].as_f64().unwrap() / 1e9;
        assert!((0.5..2.0).contains(&(found / seconds)), "{side}: {f:#}");
    }
    // Its callers take more because of it.
    let main = row(&json, "main");
    assert!(
        main["total"]["difference"].as_f64().unwrap() > 0.0,
        "{main:#}"
    );
    let table = here.rprof("diff old.data new.data --noise 5%").ok().out();
    let first = table.lines().next().unwrap();
    assert!(first.contains("knob_f"), "{table}");

    let back = diff(&here, "new.data old.data --noise 5%");
    let mirrored = row(&back, "knob_f");
    assert_eq!(mirrored["self"]["verdict"], "improved");
    for (a, b) in [("old", "new"), ("new", "old")] {
        assert_eq!(f["self"][a], mirrored["self"][b]);
    }

    // One run per side shows no variance.
    let unknown = diff(&here, "old.data new.data");
    assert_eq!(row(&unknown, "knob_f")["self"]["verdict"], "suspected");
    assert_eq!(
        (&unknown["certain"], &unknown["gate"]),
        (&false.into(), &"inconclusive".into())
    );

    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    for side in ["old", "new"] {
        let environment = &unknown[side]["environments"][0];
        assert_eq!(environment["kernel"], kernel.trim_end(), "{environment:#}");
        assert!(environment["cpus_online"].is_string(), "{environment:#}");
    }

    let same = diff(&here, "old.data old.data --fail-above 1% --strict");
    assert_eq!(same["verdict"], "same");

    // The default files are the same as in perf.
    std::fs::rename(here.path("old.data"), here.path("perf.data.old")).unwrap();
    std::fs::rename(here.path("new.data"), here.path("perf.data")).unwrap();
    let default = diff(&here, "--noise 5%");
    assert_eq!(row(&default, "knob_f"), f);
    let one = diff(&here, "perf.data.old --noise 5%");
    assert_eq!(row(&one, "knob_f"), f);
    here.rprof("diff perf.data")
        .exits(2)
        .says("both sides are perf.data");
}

#[test]
fn amounts_are_those_of_perf_diff_and_of_folded_stacks() {
    needs!(PerfEvents, Perf);
    let here = recorded();
    let json = diff(&here, "old.data new.data --no-inline");
    let perf = here.perf("diff --period old.data new.data").ok().out();
    for function in ["knob_f", "knob_g", "knob_h"] {
        let line = perf.lines().find(|line| line.ends_with(function));
        let line = line.unwrap_or_else(|| panic!("no {function}: {perf}"));
        let numbers: Vec<f64> = line
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        let own = &row(&json, function)["self"];
        let expected = [own["old"].as_f64().unwrap(), own["new"].as_f64().unwrap()];
        let has = |amount: &f64| numbers.contains(amount);
        assert!(expected.iter().all(has), "{expected:?}: {line}");
    }
    // inferno computes the same weights from folded stacks.
    for side in ["old", "new"] {
        here.rprof(&format!(
            "collapse --no-inline {side}.data -o {side}.folded"
        ))
        .ok();
    }
    let two = here
        .rprof("diff --folded --no-inline old.data new.data")
        .ok()
        .out();
    let read = |name: &str| std::fs::read_to_string(here.path(name)).unwrap();
    let (old, new) = (read("old.folded"), read("new.folded"));
    let weight = |text: &str, stack: &str| -> u64 {
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let of = lines
            .filter(|(name, _)| *name == stack)
            .map(|(_, n)| n.parse::<u64>().unwrap());
        of.sum()
    };
    let mut seen = 0;
    for line in two.lines().filter(|line| line.contains(";knob_")) {
        let [stack, a, b] = line.rsplitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (stack, a, b) = (b, a, stack);
        if old.contains(&format!("{stack} ")) || new.contains(&format!("{stack} ")) {
            seen += 1;
            assert_eq!(
                [a, b].map(|n| n.parse::<u64>().unwrap()),
                [weight(&old, stack), weight(&new, stack)],
                "{line}"
            );
        }
    }
    assert!(seen >= 3, "{two}");
}
