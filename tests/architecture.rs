//! Rules of the house that a program can check.
//!
//! - A crate depends only on crates above it in the table of ARCHITECTURE.md.
//! - The files of a crate do not import each other in a circle.
//! - Every name in backticks in ARCHITECTURE.md exists.
//! - Links of Markdown pages, and pages that sources name, exist.
//! - Comments and documents stay below a limit of hard expressions.
//! - A crate is published with its texts and without files or dependencies that a package lacks.
//! - The repository has fewer than [`MAX_TRACKED_FILES`] files. Sources and the first pages stay
//!   short.

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/links.rs"]
mod links;
#[path = "architecture/names.rs"]
mod names;
#[path = "architecture/packages.rs"]
mod packages;
#[path = "architecture/plain_english.rs"]
mod plain_english;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that git may track.
const MAX_TRACKED_FILES: usize = 2_000;

/// Lines of a source.
const MAX_LINES: usize = 600;

/// Words of the pages that a newcomer reads first.
const MAX_WORDS: [(&str, usize); 2] = [("README.md", 1_200), ("ARCHITECTURE.md", 2_000)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).expect("a folder of crates");
    let mut names: Vec<String> = folders
        .map(|entry| entry.expect("a readable folder").file_name())
        .map(|name| name.into_string().expect("a name in UTF-8"))
        .filter(|name| root().join("crates").join(name).join("Cargo.toml").exists())
        .collect();
    names.sort();
    names
}

/// Returns `None` outside of a checkout.
fn tracked_files() -> Option<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listed.stdout).expect("names in UTF-8");
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

/// Returns the crates in the first cells of tables, in order.
fn crates_of_tables(page: &str, crates: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let first = line.split('|').nth(1).unwrap_or_default();
        for name in names::in_backticks(first) {
            let name = name.trim_start_matches("crates/");
            if crates.iter().any(|one| one == name) && !found.iter().any(|one| one == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

fn dependencies(manifest: &str) -> Vec<String> {
    let lines = manifest.lines();
    let section = lines
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1);
    section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_prefix("rprof-"))
        .map(|line| line.split(['.', ' ', '=']).next().unwrap_or(line))
        .map(str::to_owned)
        .collect()
}

/// Returns dependencies on crates further down in the table.
fn dependencies_against(
    order: &[String],
    dependencies: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let place = |name: &String| order.iter().position(|one| one == name);
    let mut found = Vec::new();
    for (name, needed) in dependencies {
        for other in needed {
            if place(name)
                .zip(place(other))
                .is_none_or(|(own, other)| other >= own)
            {
                found.push(format!("{name} -> {other}"));
            }
        }
    }
    found
}

#[test]
fn dependencies_of_crates_point_up_the_table() {
    let crates = crates();
    let order = crates_of_tables(&read("ARCHITECTURE.md"), &crates);
    let missing: Vec<&String> = crates.iter().filter(|one| !order.contains(one)).collect();
    assert!(
        missing.is_empty(),
        "not in a table of ARCHITECTURE.md: {missing:?}"
    );
    let dependencies: BTreeMap<String, Vec<String>> = crates
        .into_iter()
        .map(|name| {
            let manifest = read(format!("crates/{name}/Cargo.toml"));
            (name, dependencies(&manifest))
        })
        .collect();
    let links: usize = dependencies.values().map(Vec::len).sum();
    assert!(links > 50, "{links} dependencies found");
    let wrong = dependencies_against(&order, &dependencies);
    assert!(wrong.is_empty(), "these point down the table: {wrong:#?}");
}

#[test]
fn dependency_on_a_lower_crate_is_found() {
    let order = ["records".to_owned(), "sampler".to_owned()];
    let manifest = "[dependencies]\nlibc.workspace = true\nrprof-sampler.workspace = true\n\n[dev-dependencies]\nrprof-x = 1\n";
    let found = [("records".to_owned(), dependencies(manifest))].into();
    assert_eq!(dependencies_against(&order, &found), ["records -> sampler"]);
}

#[test]
fn files_of_a_crate_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    let mut files = 0;
    for name in crates() {
        let crate_folder = root().join("crates").join(&name);
        for main in circles::roots(&crate_folder.join("src")) {
            let modules = circles::Modules::read(&main);
            files += modules.len();
            found.extend(
                modules
                    .circles()
                    .into_iter()
                    .map(|circle| format!("{name}: {circle}")),
            );
        }
    }
    assert!(files > 800, "{files} files read");
    assert!(found.is_empty(), "{} circles: {found:#?}", found.len());
}

#[test]
fn names_in_backticks_exist() {
    let tracked = tracked_files();
    let Some(tracked) = tracked else {
        rprof_testing::skip("needs a checkout by git");
        return;
    };
    let known = names::Names::read(&root(), &tracked, &crates());
    let page = read("ARCHITECTURE.md");
    let all = names::in_backticks(&page);
    assert!(all.len() > 100, "{} names", all.len());
    let unknown: Vec<&&str> = all.iter().filter(|name| !known.has(name)).collect();
    assert!(unknown.is_empty(), "names that do not exist: {unknown:#?}");
}

#[test]
fn crates_can_be_published() {
    let manifests: Vec<(String, String)> = crates()
        .into_iter()
        .map(|name| {
            let manifest = read(format!("crates/{name}/Cargo.toml"));
            (name, manifest)
        })
        .collect();
    let (private, published): (Vec<_>, Vec<_>) = manifests
        .into_iter()
        .partition(|(_, manifest)| packages::is_private(manifest));
    let private: Vec<String> = private.into_iter().map(|(name, _)| name).collect();
    assert_eq!(private, ["edges", "testing"]);
    let mut found = Vec::new();
    for (name, manifest) in &published {
        let folder = root().join("crates").join(name);
        let mut faults = packages::faults(manifest, &dependencies(manifest), &private);
        let has_shared = manifest.contains("\nreadme.workspace = true\n");
        if folder.join("README.md").exists() == has_shared {
            faults.push("needs the shared README, or its own".to_owned());
        }
        faults.extend(packages::outside_files(&folder));
        found.extend(faults.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(published.len() > 30, "{} crates", published.len());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn workspace_names_versions_of_published_crates_alone() {
    let manifest = read("Cargo.toml");
    let value = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("{key} = \""))?;
        Some(rest.split('"').next()?.to_owned())
    };
    let version = manifest.lines().find_map(|line| match line {
        line if line.starts_with("version = ") => value(line, "version"),
        _ => None,
    });
    let own: Vec<&str> = (manifest.lines())
        .filter(|line| line.starts_with("rprof-") && line.contains("path = \"crates/"))
        .collect();
    assert!(own.len() > 30, "{} crates", own.len());
    for line in own {
        // Cargo leaves a dev-dependency without a version out of a package.
        let expected = match line.starts_with("rprof-testing ") || line.starts_with("rprof-edges ")
        {
            true => None,
            false => version.clone(),
        };
        assert_eq!(value(line, "version"), expected, "{line}");
    }
}

#[test]
fn repository_has_few_files() {
    let Some(tracked) = tracked_files() else {
        rprof_testing::skip("needs a checkout by git");
        return;
    };
    assert!(tracked.len() < MAX_TRACKED_FILES, "{} files", tracked.len());
}

#[test]
fn sources_and_first_pages_stay_short() {
    let Some(tracked) = tracked_files() else {
        rprof_testing::skip("needs a checkout by git");
        return;
    };
    let sources = tracked.iter().filter(|name| name.ends_with(".rs"));
    let mut long: Vec<String> = sources
        .map(|name| {
            let text = fs::read_to_string(root().join(name)).unwrap_or_default();
            (name, text.lines().count())
        })
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    for (page, limit) in MAX_WORDS {
        let words = plain_english::words(&read(page));
        assert!(words > limit / 2, "{page}: {words} words");
        if words > limit {
            long.push(format!("{page}: {words} words"));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn comments_and_documents_stay_plain() {
    let mut hard = Vec::new();
    for name in crates() {
        let text = plain_english::comments_below(&root().join("crates").join(&name).join("src"));
        hard.extend(plain_english::above(
            &name,
            &text,
            plain_english::MAX_IN_COMMENTS,
        ));
    }
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        hard.extend(plain_english::above(
            page,
            &read(page),
            plain_english::MAX_IN_PAGES,
        ));
    }
    assert!(hard.is_empty(), "{hard:#?}");
}
