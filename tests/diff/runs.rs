//! `rprof gate` with its own runs.

use crate::support::{Here, c, needs};

#[test]
fn commands_in_turns_are_compared() {
    needs!(PerfEvents);
    let here = Here::new();
    let knob = c("knob.c");
    // The machine may be busy. The change is fourfold.
    let gate = |old: &str, new: &str| {
        here.rprof("gate --runs 2 --noise 5% --markdown comment.md --")
            .arg(&knob)
            .words(old)
            .arg(":::")
            .arg(&knob)
            .words(new)
    };
    let run = gate("0.1 0.1 0.1", "0.4 0.1 0.1").exits(3);
    assert!(run.out().contains("knob_f"), "{}", run.out());
    assert!(run.err().contains("failed above 5 %"), "{}", run.err());
    assert!(!run.out().contains("and 1 more"), "{run}");
    let comment = std::fs::read_to_string(here.path("comment.md")).unwrap();
    assert!(comment.contains("knob&#95;f"), "{comment}");
    let run = gate("0.4 0.1 0.1", "0.1 0.1 0.1").run();
    assert_ne!(run.code(), Some(3), "{}", run.err());
    assert!(!run.out().contains("▲ knob_f"), "{}", run.out());
}

#[test]
fn runs_are_compared_with_those_that_were_kept() {
    needs!(PerfEvents);
    let here = Here::new();
    let knob = c("knob.c");
    let saved = here
        .rprof("gate --save base --runs 2 --")
        .arg(&knob)
        .words("0.1 0.1 0.1")
        .ok();
    assert!(
        saved.err().contains("saved 2 runs in base"),
        "{}",
        saved.err()
    );
    let against = here.rprof("gate --base base --runs 1 --noise 5% --");
    let run = against.arg(&knob).words("0.4 0.1 0.1").exits(3);
    assert!(run.out().contains("knob_f"), "{}", run.out());
}

#[test]
fn a_run_that_fails_is_never_judged() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("gate --runs 2 --")
        .words("true ::: sh -c")
        .arg("exit 7")
        .exits(1);
    assert!(
        run.err()
            .contains("no verdict: sh ended with exit status 7"),
        "{}",
        run.err()
    );
    assert_eq!(run.out(), "");
    let run = here
        .rprof("gate --runs 2 --")
        .words("sh -c")
        .arg("kill -KILL $$")
        .words("::: true")
        .exits(1);
    assert!(run.err().contains("signal 9"), "{}", run.err());
}

#[test]
fn what_is_missing_is_told() {
    let here = Here::new();
    std::fs::create_dir(here.path("empty")).unwrap();
    for (arguments, status, message) in [
        ("gate -- true", 2, "nothing to compare with"),
        ("gate -- true :::", 2, "a command is missing beside"),
        ("gate --base nowhere -- true", 1, "cannot read nowhere"),
        (
            "gate --base nowhere -- true",
            1,
            "`rprof gate --save nowhere -- COMMAND` makes it",
        ),
        (
            "gate --markdown empty/none/x --base empty -- true",
            1,
            "Choose another file with --markdown",
        ),
        ("gate --base empty -- true", 1, "no recordings in empty"),
        (
            "gate --base empty -- true ::: true",
            1,
            "no recordings in empty",
        ),
    ] {
        let run = here.rprof(arguments).exits(status);
        assert!(run.err().contains(message), "{arguments}: {}", run.err());
    }
}
