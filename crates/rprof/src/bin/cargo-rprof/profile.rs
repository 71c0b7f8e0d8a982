//! Debug information settings of Cargo profiles, and additions that give a profile names and lines.
//!
//! A setting comes from the environment, else from the nearest configuration file, else from the
//! workspace's Cargo.toml, else from the inherited profile
//! (<https://doc.rust-lang.org/cargo/reference/profiles.html>).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Part of Cargo.toml and of Cargo's configuration files.
#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(default)]
    profile: BTreeMap<String, Profile>,
}

#[derive(Debug, Default, Deserialize)]
struct Profile {
    inherits: Option<String>,
    debug: Option<Value>,
    strip: Option<Value>,
}

/// Value of `debug` or `strip`: a boolean, a number or a word.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Value {
    Is(bool),
    Level(i64),
    Word(String),
}

impl Value {
    fn of_text(text: &str) -> Value {
        match (text.parse(), text.parse()) {
            (Ok(is), _) => Value::Is(is),
            (_, Ok(level)) => Value::Level(level),
            _ => Value::Word(text.to_owned()),
        }
    }

    /// Returns true for debug information with lines and inlined calls.
    fn has_lines(&self) -> bool {
        match self {
            Value::Is(is) => *is,
            Value::Level(level) => *level > 0,
            Value::Word(word) => matches!(word.as_str(), "line-tables-only" | "limited" | "full"),
        }
    }

    fn strips(&self) -> bool {
        match self {
            Value::Is(is) => *is,
            Value::Level(_) => false,
            Value::Word(word) => word != "none",
        }
    }
}

/// Profiles of a workspace, with their overrides.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    /// Configuration files, nearest first, then Cargo.toml of the workspace.
    files: Vec<Settings>,
    environment: BTreeMap<String, String>,
}

impl Profiles {
    /// Reads Cargo.toml of the workspace, and configuration files of `folder`, its parents and
    /// Cargo's home. Invalid and unreadable files count as empty, because Cargo itself reports
    /// them.
    pub(crate) fn read(workspace: &Path, folder: &Path) -> Profiles {
        let below =
            |folder: &Path| [".cargo/config.toml", ".cargo/config"].map(|name| folder.join(name));
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.into_iter().map(|home| home.join("config.toml"));
        let files = (folder.ancestors().flat_map(below))
            .chain(home)
            .chain([workspace.join("Cargo.toml")]);
        let read = |path: PathBuf| basic_toml::from_str(&std::fs::read_to_string(path).ok()?).ok();
        Profiles {
            files: files.filter_map(read).collect(),
            environment: std::env::vars()
                .filter(|(name, _)| name.starts_with("CARGO_PROFILE_"))
                .collect(),
        }
    }

    /// Returns environment variables that add lines, inlined calls and symbols to this profile;
    /// empty if it has them.
    pub(crate) fn additions(&self, profile: &str) -> Vec<(String, &'static str)> {
        let has_lines = self.setting(profile, "DEBUG", |p| p.debug.clone());
        let strips = self.setting(profile, "STRIP", |p| p.strip.clone());
        let built_in = Value::Is(matches!(self.ancestor(profile).as_str(), "dev" | "test"));
        let mut additions = Vec::new();
        if !has_lines.unwrap_or(built_in).has_lines() {
            // Line tables name inlined functions without their modules, which would merge functions
            // of one name.
            additions.push((variable(profile, "DEBUG"), "1"));
        }
        if strips.is_some_and(|value| value.strips()) {
            additions.push((variable(profile, "STRIP"), "none"));
        }
        additions
    }

    /// Returns the value of a setting from a profile, or from the nearest inherited profile that
    /// has it.
    fn setting(
        &self,
        profile: &str,
        name: &str,
        of: impl Fn(&Profile) -> Option<Value>,
    ) -> Option<Value> {
        self.line_of(profile).iter().find_map(|profile| {
            let variable = self.environment.get(&variable(profile, name));
            let files = self.files.iter();
            (variable.map(|text| Value::of_text(text))).or_else(|| {
                files
                    .filter_map(|file| file.profile.get(profile))
                    .find_map(&of)
            })
        })
    }

    /// Returns a profile and its inherited profiles, in order.
    fn line_of(&self, profile: &str) -> Vec<String> {
        const LIMIT: usize = 16;
        let parent = |profile: &String| {
            let named = self
                .files
                .iter()
                .find_map(|file| file.profile.get(profile)?.inherits.clone());
            named.or_else(|| match profile.as_str() {
                "bench" => Some("release".to_owned()),
                "test" => Some("dev".to_owned()),
                _ => None,
            })
        };
        std::iter::successors(Some(profile.to_owned()), parent)
            .take(LIMIT)
            .collect()
    }

    fn ancestor(&self, profile: &str) -> String {
        self.line_of(profile).pop().unwrap_or_default()
    }
}

/// Returns the name of the environment variable that overrides a setting of a profile.
fn variable(profile: &str, setting: &str) -> String {
    let profile = profile.to_uppercase().replace('-', "_");
    format!("CARGO_PROFILE_{profile}_{setting}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(files: &[&str], environment: &[(&str, &str)]) -> Profiles {
        Profiles {
            files: files
                .iter()
                .map(|text| basic_toml::from_str(text).unwrap())
                .collect(),
            environment: (environment.iter())
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn added(profiles: &Profiles, profile: &str) -> String {
        let additions = profiles.additions(profile).into_iter();
        additions
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn lines_are_added_where_there_are_none() {
        let none = profiles(&[], &[]);
        assert_eq!(added(&none, "release"), "CARGO_PROFILE_RELEASE_DEBUG=1");
        assert_eq!(added(&none, "bench"), "CARGO_PROFILE_BENCH_DEBUG=1");
        assert_eq!(added(&none, "dev"), "");
        assert_eq!(added(&none, "test"), "");
        let all = [
            "true",
            "1",
            "2",
            "\"line-tables-only\"",
            "\"full\"",
            "\"limited\"",
        ];
        for value in all {
            let some = profiles(&[&format!("[profile.release]\ndebug = {value}")], &[]);
            assert_eq!(added(&some, "release"), "", "{value}");
            assert_eq!(added(&some, "bench"), "", "{value}");
        }
        for value in ["false", "0", "\"none\"", "\"line-directives-only\""] {
            let some = profiles(&[&format!("[profile.dev]\ndebug = {value}")], &[]);
            assert_eq!(added(&some, "dev"), "CARGO_PROFILE_DEV_DEBUG=1", "{value}");
        }
    }

    #[test]
    fn profiles_inherit() {
        let text = "[profile.release]\ndebug = 1\n[profile.fast-ci]\ninherits = \"release\"\nstrip = true\n\
                    [profile.small]\ninherits = \"fast-ci\"\ndebug = 0\nstrip = \"none\"\n\
                    [profile.round]\ninherits = \"round\"";
        let all = profiles(&[text], &[]);
        assert_eq!(added(&all, "fast-ci"), "CARGO_PROFILE_FAST_CI_STRIP=none");
        assert_eq!(added(&all, "small"), "CARGO_PROFILE_SMALL_DEBUG=1");
        assert_eq!(added(&all, "round"), "CARGO_PROFILE_ROUND_DEBUG=1");
    }

    #[test]
    fn the_environment_and_the_nearest_file_count_first() {
        let files = [
            "[profile.release]\ndebug = 2",
            "[profile.release]\ndebug = 0",
        ];
        assert_eq!(added(&profiles(&files, &[]), "release"), "");
        let off = [("CARGO_PROFILE_RELEASE_DEBUG", "false")];
        assert_ne!(added(&profiles(&files, &off), "release"), "");
        let on = [("CARGO_PROFILE_RELEASE_DEBUG", "1")];
        assert_eq!(added(&profiles(&files[1..], &on), "release"), "");
    }
}
