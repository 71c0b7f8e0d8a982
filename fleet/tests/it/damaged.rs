//! Damaged and foreign files.

use std::fs;

use crate::support::{SUMS, Scene, finish, texts};

/// Results without the first host's samples.
fn without_the_first(scene: &Scene) -> String {
    let path = scene.files("samples").remove(0);
    let bytes = fs::read(&path).expect("a file");
    fs::remove_file(&path).expect("removed");
    let answer = scene.sql(SUMS);
    fs::write(&path, bytes).expect("written");
    answer
}

#[test]
fn a_file_that_was_cut_is_named_and_left_out() {
    let scene = Scene::of_hosts(5, 1);
    let path = scene.files("samples").remove(0);
    let bytes = fs::read(&path).expect("a file");
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        let expected = without_the_first(&scene);
        fs::write(&path, &bytes[..length]).expect("written");
        let (answer, told) = finish(scene.command("sql --format csv").arg(SUMS));
        assert!(
            told.contains("left out: samples/date=2023-11-14/hour=22/"),
            "{length}: {told}"
        );
        assert_eq!(answer, expected, "{length}");
        fs::write(&path, &bytes).expect("written");
    }
}

#[test]
fn a_file_whose_pages_are_damaged_is_named_and_left_out() {
    let scene = Scene::of_hosts(5, 1);
    let path = scene.files("samples").remove(0);
    let mut bytes = fs::read(&path).expect("a file");
    let expected = without_the_first(&scene);
    // Zeros the start of the pages. The footer is valid.
    let end = bytes.len() / 2;
    bytes[4..end].fill(0);
    fs::write(&path, bytes).expect("written");
    let (answer, told) = finish(scene.command("sql --format csv").arg(SUMS));
    assert!(
        told.contains("left out: samples/date=2023-11-14/hour=22/"),
        "{told}"
    );
    assert_eq!(answer, expected);
    // Compaction merges the others, and keeps the damaged file.
    let (_, told) = scene.run("compact");
    assert!(told.contains("left out: samples/"), "{told}");
    assert_eq!(scene.sql(SUMS), expected);
    scene.run("compact --grace 0");
    assert_eq!(scene.files("samples").len(), 2);
    assert_eq!(scene.sql(SUMS), expected);
}

#[test]
fn a_file_of_another_table_is_named_and_left_out() {
    let scene = Scene::of_hosts(5, 1);
    let stacks = fs::read(&scene.files("stacks")[0]).expect("a file");
    let path = scene.files("samples").remove(0);
    let bytes = fs::read(&path).expect("a file");
    let expected = without_the_first(&scene);
    fs::write(&path, stacks).expect("written");
    let (answer, told) = finish(scene.command("sql --format csv").arg(SUMS));
    assert!(told.contains("it has no column window_start"), "{told}");
    assert_eq!(answer, expected);
    fs::write(&path, bytes).expect("written");
    let scene_answer = scene.sql(SUMS);
    // Outside of the partitions, and with an unusual name.
    let stray = scene.path().join("samples/stray.parquet");
    fs::copy(&path, &stray).expect("copied");
    let (answer, told) = finish(scene.command("sql --format csv").arg(SUMS));
    assert!(
        told.contains("samples/stray.parquet: it lies in no partition"),
        "{told}"
    );
    assert_eq!(answer, scene_answer);
    fs::remove_file(stray).expect("removed");
    let odd = path.with_file_name("a b\u{1b}[31m.parquet");
    fs::copy(&path, &odd).expect("copied");
    let (_, told) = finish(scene.command("sql --format csv").arg(SUMS));
    assert!(told.contains("a b") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn stacks_that_are_in_no_file_keep_their_time() {
    let scene = Scene::of_hosts(2, 1);
    let total = |csv: &str| -> u64 {
        let lines = csv
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<_>>());
        let heading = csv.lines().next().expect("a heading");
        let column = heading
            .split(',')
            .position(|name| name == "self")
            .unwrap_or_else(|| panic!("{heading}"));
        lines
            .map(|cells| {
                cells[column]
                    .parse::<u64>()
                    .unwrap_or_else(|_| panic!("{cells:?}"))
            })
            .sum()
    };
    let words = "top -n 100000 --format csv";
    let before = total(&scene.run(words).0);
    for path in scene.files("stacks") {
        fs::remove_file(path).expect("removed");
    }
    let (csv, _) = scene.run(words);
    assert!(csv.contains("[stack is missing]"), "{csv}");
    assert_eq!(total(&csv), before);
}

#[test]
fn an_empty_folder_is_told() {
    let scene = Scene::empty();
    let output = scene.command("top").output().expect("it runs");
    let (_, told) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("has no tables of that time"), "{told}");
    let output = scene
        .command("sql")
        .arg("SELECT 1 FROM")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
}
