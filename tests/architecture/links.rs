//! Links of Markdown pages, and paths of pages in sources.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{read, root, tracked_files};

/// Returns the destinations of inline links outside of code blocks.
fn destinations(page: &str) -> Vec<&str> {
    let texts = page.split("```").step_by(2);
    let links = texts.flat_map(|text| text.split("](").skip(1));
    links
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link)
        .filter(|link| !link.contains("://") && !link.contains(char::is_whitespace))
        .collect()
}

/// Returns the anchors of headings, as on GitHub.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let letters = text.chars().filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c => c.is_alphanumeric().then_some(c),
            });
            letters.collect()
        })
        .collect()
}

/// Resolves `.` and `..` without a look at the file system.
fn normalized(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => (),
            part => parts.push(part),
        }
    }
    parts
}

/// Returns the fault of a page's link, if it has any.
fn broken(page: &str, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => PathBuf::from(page),
        path => normalized(&Path::new(page).with_file_name("").join(path)),
    };
    if !root().join(&target).exists() {
        return Some(format!("{page}: {link} does not exist"));
    }
    let is_page = target.extension().is_some_and(|end| end == "md");
    let has_anchor = anchor.is_empty() || !is_page || anchors(&read(&target)).contains(anchor);
    (!has_anchor).then(|| format!("{page}: {link} has no such heading"))
}

fn pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(start, _)| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let rest = &text[start..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        path.ends_with(".md").then_some(path)
    })
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let Some(tracked) = tracked_files() else {
        return;
    };
    let mut count = 0;
    let mut wrong = Vec::new();
    for file in tracked.iter().filter(|file| file.ends_with(".md")) {
        let text = read(file);
        let links = destinations(&text);
        count += links.len();
        wrong.extend(links.iter().filter_map(|link| broken(file, link)));
    }
    assert!(count >= 100, "{count} links found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_that_a_source_names_exists() {
    let Some(tracked) = tracked_files() else {
        return;
    };
    let mut count = 0;
    let mut wrong = Vec::new();
    let is_source = |file: &&String| file.ends_with(".rs") || file.ends_with(".toml");
    for file in tracked.iter().filter(is_source) {
        let text = read(file);
        for page in pages(&text) {
            count += 1;
            if !root().join(page).exists() {
                wrong.push(format!("{file}: {page}"));
            }
        }
    }
    assert!(count >= 10, "{count} pages named");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn broken_links_are_found() {
    let here = "docs/design/README.md";
    assert_eq!(broken(here, "../../README.md#install"), None);
    assert_eq!(broken(here, "../security.md"), None);
    assert!(broken(here, "../../README.md#no-such-heading").is_some());
    assert!(broken(here, "0000-nothing.md").is_some());
}
