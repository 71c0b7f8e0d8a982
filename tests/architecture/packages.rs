//! Needs of `cargo package`: texts for the registry, files within the crate's folder, published
//! dependencies.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Lines of each published crate's manifest.
const NEEDED: &[&str] = &[
    "description = \"",
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "categories",
    "keywords.workspace = true",
    "exclude.workspace = true",
    "[package.metadata.docs.rs]",
];

pub(crate) fn is_private(manifest: &str) -> bool {
    manifest.lines().any(|line| line == "publish = false")
}

pub(crate) fn faults(manifest: &str, dependencies: &[String], private: &[String]) -> Vec<String> {
    let missing = NEEDED
        .iter()
        .filter(|needed| !manifest.lines().any(|line| line.starts_with(**needed)))
        .map(|needed| format!("no line `{needed}`"));
    let unpublished = dependencies
        .iter()
        .filter(|name| private.contains(name))
        .map(|name| format!("depends on {name}, which is not published"));
    missing.chain(unpublished).collect()
}

/// Returns files that a source includes from outside the crate's folder. A package lacks them.
pub(crate) fn outside_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.join("src"), folder.join("examples")];
    while let Some(below) = left.pop() {
        for entry in fs::read_dir(&below).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a source in UTF-8");
                let outside = included(&text)
                    .into_iter()
                    .filter(|file| !plain(&below.join(file)).starts_with(plain(folder)));
                found.extend(outside.map(|file| format!("{}: {file}", path.display())));
            }
        }
    }
    found
}

fn included(text: &str) -> Vec<String> {
    let starts = [
        "include_str!(\"",
        "include_bytes!(\"",
        "include!(\"",
        "#[path = \"",
    ];
    starts
        .iter()
        .flat_map(|start| text.split(start).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn faults_of_a_manifest_are_found() {
    let manifest = NEEDED.join("\n");
    let private = ["testing".to_owned()];
    assert!(faults(&manifest, &[], &private).is_empty());
    let without = manifest.replace("license.workspace = true\n", "");
    assert_eq!(faults(&without, &private, &private).len(), 2);
}

#[test]
fn included_files_are_found() {
    let text = "const A: &str = include_str!(\"../../a\");\n#[path = \"b.rs\"]\nmod b;";
    assert_eq!(included(text), ["../../a", "b.rs"]);
    assert!(!plain(Path::new("/c/src/../../a")).starts_with("/c"));
}
