//! Names in backticks, and whether they exist.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

pub(crate) struct Names {
    words: HashSet<String>,
    /// Paths from the root and from each folder below it.
    paths: HashSet<String>,
}

/// Returns the texts between single backticks outside of code blocks.
pub(crate) fn in_backticks(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (number, text) in page.split("```").enumerate() {
        if number % 2 == 0 {
            let parts = text.split('`').enumerate();
            found.extend(
                parts
                    .filter(|(number, _)| number % 2 == 1)
                    .map(|(_, name)| name),
            );
        }
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

impl Names {
    pub(crate) fn read(root: &Path, tracked: &[String], crates: &[String]) -> Self {
        let mut words: HashSet<String> = crates.iter().cloned().collect();
        let mut paths = HashSet::new();
        for file in tracked {
            let parts: Vec<&str> = file.split('/').collect();
            for first in 0..parts.len() {
                for end in first + 1..=parts.len() {
                    paths.insert(parts[first..end].join("/"));
                }
            }
            if [".rs", ".toml", ".js"]
                .iter()
                .any(|end| file.ends_with(end))
            {
                let text = fs::read_to_string(root.join(file)).unwrap_or_default();
                words.extend(text.split(|c| !is_word(c)).map(str::to_owned));
                // Options and crates have hyphens.
                words.extend(text.split(|c| !is_word(c) && c != '-').map(str::to_owned));
            }
        }
        Self { words, paths }
    }

    /// Returns true for a path of the repository, and for words that all stand in a source.
    pub(crate) fn has(&self, name: &str) -> bool {
        let path = name.trim_end_matches('/');
        if self.paths.contains(path) {
            return true;
        }
        let is_path = name.contains('/') && !name.starts_with('/') && !name.contains(' ');
        let mut words = name
            .split(|c| !is_word(c) && c != '-')
            .filter(|word| !word.is_empty());
        !is_path
            && words.all(|word| {
                let word = word.trim_matches('-');
                let parts = || word.split('-').all(|part| self.words.contains(part));
                word.is_empty() || self.words.contains(word) || parts()
            })
    }
}

#[test]
fn wrong_name_is_found() {
    let root = super::root();
    let tracked = ["crates/records/src/lib.rs".to_owned()];
    let names = Names::read(&root, &tracked, &["records".to_owned()]);
    for name in [
        "records",
        "crates/records",
        "SampleLayout",
        "SampleLayout::new()",
        "src/lib.rs",
    ] {
        assert!(names.has(name), "{name}");
    }
    for name in [
        "crates/recorde",
        "SampleLayoutX",
        "SampleLayout::nowhere()",
        "src/lib.c",
    ] {
        assert!(!names.has(name), "{name}");
    }
    assert_eq!(
        in_backticks("a `b` c `d::e`\n```\n`f`\n```\n`g`"),
        ["b", "d::e", "g"]
    );
}
