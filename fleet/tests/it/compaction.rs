//! Compaction of hours.

use std::path::Path;

use crate::hosts::{Plan, write};
use crate::support::{SUMS, Scene};

const QUESTIONS: [&str; 3] = [
    "top -n 1000 --format csv",
    "export --format folded",
    "export --format csv --root version",
];

fn answers(scene: &Scene) -> Vec<String> {
    let mut all: Vec<String> = QUESTIONS.iter().map(|words| scene.run(words).0).collect();
    all.push(scene.sql(SUMS));
    all.push(scene.sql("SELECT count(*) AS n, sum(samples) AS samples FROM hosts"));
    all
}

#[test]
fn twice_gives_the_answers_of_not_at_all() {
    let scene = Scene::of_hosts(10, 2);
    let before = answers(&scene);
    assert!(before[0].contains("checkout::f61"), "{}", before[0]);
    let (_, told) = scene.run("compact");
    assert!(
        told.contains("60 files") && told.contains(" are 6 of"),
        "{told}"
    );
    assert_eq!(scene.files("samples").len(), 11);
    assert_eq!(answers(&scene), before);
    scene.run("compact");
    assert_eq!(scene.files("samples").len(), 11);
    scene.run("compact --grace 0");
    assert_eq!(scene.files("samples").len(), 1);
    assert_eq!(answers(&scene), before);
    let bytes = std::fs::read(&scene.files("samples")[0]).expect("a file");
    scene.run("compact --grace 0");
    assert_eq!(
        std::fs::read(&scene.files("samples")[0]).expect("a file"),
        bytes
    );
}

#[test]
fn late_hosts_are_added_and_a_file_that_is_sent_again_counts_once() {
    let scene = Scene::of_hosts(10, 2);
    let before = answers(&scene);
    let late = tempfile::tempdir().expect("a folder");
    // Half of the hosts' files arrive after the compaction.
    let moved: Vec<_> = (scene.files("samples").into_iter().step_by(2))
        .map(|path| {
            let to = late.path().join(path.file_name().expect("a name"));
            std::fs::rename(&path, &to).expect("moved");
            (path, to)
        })
        .collect();
    scene.run("compact");
    assert_ne!(answers(&scene), before);
    for (path, to) in &moved {
        std::fs::copy(to, path).expect("copied");
    }
    assert_eq!(answers(&scene), before);
    scene.run("compact");
    scene.run("compact --grace 0");
    assert_eq!(scene.files("samples").len(), 1);
    for (path, to) in &moved {
        std::fs::copy(to, path).expect("copied");
    }
    assert_eq!(scene.files("samples").len(), 6);
    assert_eq!(answers(&scene), before);
}

#[test]
fn an_hour_that_has_not_ended_is_left_alone() {
    let scene = Scene::empty();
    let now = chrono::Utc::now().timestamp();
    let plan = Plan {
        hosts: 2,
        minutes: 1,
        hour: now - now % 3_600,
        ..Plan::default()
    };
    write(scene.path(), &plan).expect("tables");
    let (_, told) = scene.run("compact");
    assert!(told.starts_with("0 files"), "{told}");
}

#[test]
fn files_of_other_hours_stay_apart() {
    let scene = Scene::of_hosts(2, 1);
    let plan = Plan {
        hosts: 2,
        minutes: 1,
        hour: Plan::default().hour + 3_600,
        ..Plan::default()
    };
    write(scene.path(), &plan).expect("tables");
    scene.run("compact");
    scene.run("compact --grace 0");
    let files = scene.files("samples");
    let hour = |path: &Path| {
        path.parent()
            .expect("a folder")
            .file_name()
            .expect("a name")
            .to_owned()
    };
    assert_eq!(
        files.iter().map(|path| hour(path)).collect::<Vec<_>>(),
        ["hour=22", "hour=23"]
    );
    let of_one = scene.sql("SELECT DISTINCT \"date\", \"hour\" FROM samples ORDER BY 1, 2");
    assert_eq!(of_one, "date,hour\n2023-11-14,22\n2023-11-14,23\n");
    let (until, _) = scene.run("export --format csv --until 2023-11-14T23");
    let (since, _) = scene.run("export --format csv --since 2023-11-14T23");
    let (all, _) = scene.run("export --format csv");
    assert_ne!(until, all);
    assert!(since.len() > 100 && until.len() > 100);
}
