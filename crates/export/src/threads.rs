//! Merging of threads with different names.

use std::collections::{BTreeMap, BTreeSet};

use rprof_profile::pattern::matches_name;

/// Rules for merging threads of different names, such as workers with the same task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadMerging {
    /// Merge names that differ only in digits: `worker-0` and `worker-1` become `worker-*`.
    pub by_number: bool,
    /// Merge names that match a pattern with `*` and `?`. The pattern becomes their name.
    pub patterns: Vec<String>,
}

impl Default for ThreadMerging {
    fn default() -> Self {
        ThreadMerging {
            by_number: true,
            patterns: Vec::new(),
        }
    }
}

impl ThreadMerging {
    /// Merges no names.
    pub const NONE: ThreadMerging = ThreadMerging {
        by_number: false,
        patterns: Vec::new(),
    };

    /// Returns the merged name of each thread name.
    pub fn merge(&self, names: &[String]) -> Vec<String> {
        let mut alike: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        if self.by_number {
            for name in names {
                alike.entry(without_numbers(name)).or_default().insert(name);
            }
        }
        let shown = |name: &String| {
            let is_match = |pattern: &&String| matches_name(pattern, name);
            if let Some(pattern) = self.patterns.iter().find(is_match) {
                return pattern.clone();
            }
            let general = without_numbers(name);
            match alike.get(&general) {
                Some(names) if names.len() > 1 => general,
                _ => name.clone(),
            }
        };
        names.iter().map(shown).collect()
    }
}

fn without_numbers(name: &str) -> String {
    let mut general = String::with_capacity(name.len());
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if general.ends_with('*') => {}
            true => general.push('*'),
            false => general.push(c),
        }
    }
    general
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(merging: &ThreadMerging, names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        merging.merge(&names)
    }

    #[test]
    fn names_that_differ_in_numbers_only_are_one() {
        let names = [
            "worker-0",
            "worker-12",
            "G1_Conc#0",
            "main",
            "x1y2",
            "x3y44",
        ];
        let shown = ["worker-*", "worker-*", "G1_Conc#0", "main", "x*y*", "x*y*"];
        assert_eq!(merged(&ThreadMerging::default(), &names), shown);
        assert_eq!(merged(&ThreadMerging::NONE, &names), names);
    }

    #[test]
    fn patterns_come_first_and_name_what_they_merge() {
        let merging = ThreadMerging {
            patterns: vec!["tokio*".into(), "?1".into()],
            ..ThreadMerging::default()
        };
        let names = ["tokio-runtime-w", "tokio-2", "a1", "b1", "c2", "c3"];
        let shown = ["tokio*", "tokio*", "?1", "?1", "c*", "c*"];
        assert_eq!(merged(&merging, &names), shown);
    }
}
