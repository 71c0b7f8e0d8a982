//! Two versions of services.

use crate::hosts::{SLOWER_FUNCTION, SLOWER_SERVICE};
use crate::support::{Scene, texts};

#[test]
fn the_function_that_got_slower_is_named_and_no_other() {
    let scene = Scene::of_hosts(300, 20);
    let output = scene.command("regressions").output().expect("it runs");
    let (found, told) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{found}{told}");
    let rows: Vec<&str> = found.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{found}");
    for part in [SLOWER_SERVICE, SLOWER_FUNCTION, "1.4..1.5", " % to "] {
        assert!(rows[0].contains(part), "{part}: {found}");
    }
    // Also by seconds of hosts, which were all equally busy.
    let output = scene
        .command("regressions --per second")
        .output()
        .expect("it runs");
    let (found, _) = texts(&output);
    assert!(found.contains(SLOWER_FUNCTION), "{found}");
    // In the reverse direction it gets faster, which is no regression.
    let (diff, _) = scene.run("diff --service checkout --versions 1.5..1.4 --format json");
    assert!(
        diff.contains("\"outcome\":\"improved\"") || diff.contains("mproved"),
        "{diff:.300}"
    );
}

#[test]
fn a_picture_of_the_difference_is_drawn() {
    let scene = Scene::of_hosts(20, 2);
    let picture = scene.path().join("diff.svg");
    let words = format!("diff --service checkout -o {}", picture.display());
    let (table, _) = scene.run(&words);
    assert!(table.contains("# old: 1.4"), "{table}");
    let svg = std::fs::read_to_string(picture).expect("a picture");
    assert!(svg.contains(SLOWER_FUNCTION), "{svg:.300}");
}

#[test]
fn versions_that_are_not_there_are_told_with_those_that_are() {
    let scene = Scene::of_hosts(10, 1);
    let output = scene
        .command("diff --service cart --versions 1.4..9")
        .output()
        .expect("it runs");
    let (_, told) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("version = '9'") && told.contains("cart 1.5"),
        "{told}"
    );
    let output = scene.command("diff").output().expect("it runs");
    let (_, told) = texts(&output);
    assert!(told.contains("--service"), "{told}");
}
