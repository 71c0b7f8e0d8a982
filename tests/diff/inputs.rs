//! Inputs of comparisons, and invalid ones.

use crate::support::{Here, well_formed};

/// Two sides: `parse` doubles, `ascii` disappears, `utf8` is new.
const OLD: &str = "app;main;parse 1000\napp;main;ascii 200\napp;main;rest 4000\n";
const NEW: &str = "app;main;parse 2000\napp;main;utf8 300\napp;main;rest 4000\n";

fn folded() -> Here {
    let here = Here::new();
    std::fs::write(here.path("old"), OLD).unwrap();
    std::fs::write(here.path("new"), NEW).unwrap();
    here
}

#[test]
fn folded_stacks_are_compared() {
    let here = folded();
    let table = here.rprof("diff old new --noise 2%").ok().out();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("# REGRESSED"), "{table}");
    let row = |name: &str| {
        let found = lines
            .iter()
            .find(|l| !l.starts_with('#') && l.contains(name));
        found.unwrap_or_else(|| panic!("no {name}: {table}"))
    };
    let figures = ["1000", "2000", "x2", "+100 %"];
    assert!(
        row("parse").contains(figures[0].trim()) || row("parse").contains("1.00 k"),
        "{table}"
    );
    assert!(
        row("utf8").contains("new") && row("ascii").contains("gone"),
        "{table}"
    );
    let piped = here
        .rprof("diff - new --noise 2%")
        .stdin(OLD.as_bytes())
        .ok()
        .out();
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| !line.starts_with("# old"));
        rows.map(str::to_owned).collect()
    };
    assert_eq!(rows(&piped), rows(&table));
    let focused = here
        .rprof("diff old new --noise 2% --focus rest --format csv")
        .ok()
        .out();
    assert!(
        focused.contains("rest") && !focused.contains("parse"),
        "{focused}"
    );
}

#[test]
fn the_picture_is_well_formed_and_has_both_panels() {
    let here = folded();
    let run = here.rprof("diff old new --noise 2% -o diff.svg").ok();
    assert!(run.out().contains("parse") && run.err().contains("wrote diff.svg"));
    let titles = well_formed(&std::fs::read_to_string(here.path("diff.svg")).unwrap());
    let has = |part: &str| titles.iter().any(|title| title.contains(part));
    assert!(
        has("parse (") && has("only in the old side (") && has("ascii ("),
        "{titles:?}"
    );
    assert!(
        has("to 2.00 k, +100 %") && has("new)") && has("gone)"),
        "{titles:?}"
    );
    let run = here.rprof("diff old new -q -o -").ok();
    assert_eq!(well_formed(&run.out()).len(), titles.len());
}

#[test]
fn folded_output_is_read_back_by_inferno() {
    let here = folded();
    let two = here.rprof("diff --folded old new").ok().out();
    assert_eq!(
        two,
        "app;main;ascii 200 0\napp;main;parse 1000 2000\napp;main;rest 4000 4000\napp;main;utf8 0 300\n"
    );
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, two.lines(), &mut svg).unwrap();
    let titles = well_formed(&String::from_utf8(svg).unwrap());
    assert!(
        titles.iter().any(|title| title.contains("parse")),
        "{titles:?}"
    );
}

#[test]
fn a_folder_stands_for_the_recordings_in_it() {
    let here = folded();
    for (folder, text) in [("before", OLD), ("after", NEW)] {
        std::fs::create_dir(here.path(folder)).unwrap();
        for run in ["10.folded", "9.folded", "1.folded.old", ".hidden"] {
            std::fs::write(here.path(folder).join(run), text).unwrap();
        }
    }
    for arguments in ["before after", "--base before --new after"] {
        let run = here.rprof(&format!("diff {arguments} --format json")).ok();
        let json: serde_json::Value = serde_json::from_str(&run.out()).unwrap();
        let files = |side: &str| json[side]["files"].as_array().unwrap().clone();
        // The tenth run sorts after the ninth.
        assert_eq!(files("old"), ["before/9.folded", "before/10.folded"]);
        assert_eq!(files("new"), ["after/9.folded", "after/10.folded"]);
        assert_eq!(json["noise"]["source"], "runs");
    }
    std::fs::create_dir(here.path("none")).unwrap();
    let run = here.rprof("diff before none").exits(1);
    assert!(run.err().contains("no recordings in none"), "{}", run.err());
}

#[test]
fn what_does_not_compare_is_told_with_status_2() {
    let here = folded();
    for (arguments, status, message) in [
        ("diff old missing", 1, "missing"),
        ("diff old new third", 2, "unexpected argument"),
        ("diff --base old", 2, "--new"),
        ("diff old --base old --new new", 2, "cannot be used with"),
        ("diff old new --per second", 2, "--per N"),
        (
            "diff --base old --new new new --paired",
            2,
            "the same number of runs",
        ),
        ("diff old new --fail-above x", 2, "percentage"),
        (
            "diff old new --focus nowhere",
            1,
            "none passes --focus nowhere",
        ),
    ] {
        let run = here.rprof(arguments).exits(status);
        assert!(run.err().contains(message), "{arguments}: {}", run.err());
        assert_eq!(run.out(), "", "{arguments}");
    }
    std::fs::copy(here.path("new"), here.path("perf.data")).unwrap();
    std::os::unix::fs::symlink("perf.data", here.path("link")).unwrap();
    for same in ["perf.data", "./perf.data", "link"] {
        let run = here.rprof(&format!("diff {same}")).exits(2);
        run.says("both sides are perf.data: name the old and the new recording");
    }
    here.rprof("diff old").ok();
    here.rprof("diff perf.data perf.data").ok();
    std::fs::write(here.path("empty"), "").unwrap();
    std::fs::write(here.path("damaged"), "PERFILE2 and nothing else").unwrap();
    for file in ["empty", "damaged"] {
        let run = here.rprof(&format!("diff old {file}")).exits(1);
        assert!(run.err().contains(file), "{}", run.err());
    }
    std::fs::write(here.path("perf.data"), "").unwrap();
    let run = here.rprof("diff old").exits(1);
    run.says("NEW defaults to perf.data: perf.data is empty");
    let run = here.rprof("diff old perf.data").exits(1);
    assert!(!run.err().contains("default"), "{run}");
}

#[test]
fn amounts_are_divided_by_what_was_asked() {
    let here = Here::new();
    std::fs::write(here.path("old"), "main;f 1000\nmain;g 3000\n").unwrap();
    std::fs::write(here.path("new"), "main;f 2000\nmain;g 6000\n").unwrap();
    let json = |arguments: &str| -> serde_json::Value {
        let run = here
            .rprof(&format!("diff old new --format json {arguments}"))
            .ok();
        serde_json::from_str(&run.out()).unwrap()
    };
    let f = |json: &serde_json::Value| {
        let rows = json["functions"].as_array().unwrap().clone();
        let f = rows.into_iter().find(|row| row["function"] == "f").unwrap();
        (
            f["self"]["old"].as_f64().unwrap(),
            f["self"]["new"].as_f64().unwrap(),
        )
    };
    assert_eq!(f(&json("")), (1000.0, 2000.0));
    assert_eq!(f(&json("--per 10:20")), (100.0, 100.0));
    assert_eq!(f(&json("--per total")), (0.25, 0.25));
    // If everything doubles, no single function is reported.
    let uniform = json("--noise 2%");
    assert_eq!(uniform["total"]["verdict"], "regressed");
}
