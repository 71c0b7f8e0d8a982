//! `rprof doctor`, compared with actual recordings.

use serde_json::Value;

use crate::support::{Here, Run, c, needs};

fn json(run: &Run) -> Value {
    serde_json::from_slice(run.bytes()).unwrap_or_else(|e| panic!("{e} in\n{run}"))
}

fn check<'v>(found: &'v Value, id: &str) -> &'v Value {
    let checks = found["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["id"] == id);
    check.unwrap_or_else(|| panic!("no check {id} in {found:#}"))
}

#[test]
fn doctor_says_yes_where_recording_works() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("doctor").ok();
    run.is_clean()
        .prints("own programs")
        .prints("`rprof record` works here");
    let found = json(&here.rprof("doctor --format json").ok());
    assert_eq!(
        (&found["version"], &found["can_record"]),
        (&Value::from(1), &Value::from(true))
    );
    assert_eq!(check(&found, "own-user")["state"], "ok");
    for check in found["checks"].as_array().unwrap() {
        let known = ["ok", "limited", "blocked"].contains(&check["state"].as_str().unwrap());
        assert!(
            known && !check["found"].as_str().unwrap().is_empty(),
            "{check}"
        );
        assert_eq!(
            check["state"] == "ok",
            check.get("fix").is_none(),
            "{check}"
        );
    }
    here.rprof("record -q -g -- true").ok();
}

#[test]
fn doctor_says_no_where_seccomp_forbids_recording() {
    let here = Here::new();
    let run = here
        .command(c("deny.c"))
        .arg(env!("CARGO_BIN_EXE_rprof"))
        .arg("doctor")
        .exits(1);
    run.prints("blocked")
        .prints("seccomp")
        .prints("does not work here")
        .prints("--cap-add PERFMON");
    let rprof = here.command(c("deny.c")).arg(env!("CARGO_BIN_EXE_rprof"));
    let found = json(&rprof.words("doctor --format json").exits(1));
    assert_eq!(found["can_record"], false);
    for id in ["own-user", "stacks", "seccomp"] {
        assert_eq!(check(&found, id)["state"], "blocked", "{id}");
    }
    let rprof = here.command(c("deny.c")).arg(env!("CARGO_BIN_EXE_rprof"));
    let run = rprof.words("record -g -- touch ran").exits(1);
    run.says("seccomp");
    assert!(
        !here.path("ran").exists() && !here.path("perf.data").exists(),
        "{run}"
    );
}

#[test]
fn doctor_has_colours_only_when_asked_to() {
    let here = Here::new();
    let plain = here.rprof("doctor").run();
    assert!(!plain.out().contains('\u{1b}'), "{plain}");
    let run = here.rprof("doctor --color always").run();
    assert!(run.out().contains("\u{1b}[32mok"), "{run}");
}
