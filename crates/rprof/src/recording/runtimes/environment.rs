//! Environment variables that make runtimes write symbols.

use std::ffi::OsString;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) variable: &'static str,
    pub(super) value: OsString,
    /// Text added to an existing value, or the whole value.
    added: String,
    is_addition: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_addition {
            true => write!(f, "{} with {} added", self.variable, self.added),
            false => write!(f, "{}={}", self.variable, self.added),
        }
    }
}

/// Variables set only if unset.
const PLAIN: [(&str, &str); 2] = [
    // Python 3.12, built with trampolines.
    ("PYTHONPERFSUPPORT", "1"),
    // .NET 6.
    ("DOTNET_PerfMapEnabled", "1"),
];

/// Variables that hold options, to which rprof adds some.
///
/// JVMs before 17 lack the last option, and would not start without the first. All print on stderr
/// that they used the variable.
const OPTIONS: [(&str, &[&str]); 2] = [
    (
        "NODE_OPTIONS",
        &["--perf-basic-prof", "--interpreted-frames-native-stack"],
    ),
    (
        "JAVA_TOOL_OPTIONS",
        &[
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:+DumpPerfMapAtExit",
        ],
    ),
];

/// Options of Erlang's emulator. An emulator that lacks them does not start.
const ERLANG: (&str, &[&str]) = ("ERL_FLAGS", &["+JPperf", "true"]);

/// Returns the changes to an environment. The user's own settings stay.
pub(super) fn changes(
    value_of: impl Fn(&str) -> Option<OsString>,
    has_erlang: bool,
) -> Vec<Change> {
    let mut changes: Vec<Change> = (PLAIN.into_iter())
        .filter(|(variable, _)| value_of(variable).is_none_or(|value| value.is_empty()))
        .map(|(variable, value)| Change {
            variable,
            value: value.into(),
            added: value.into(),
            is_addition: false,
        })
        .collect();
    let erlang = has_erlang.then_some(ERLANG);
    for (variable, options) in OPTIONS.into_iter().chain(erlang) {
        let before = value_of(variable).unwrap_or_default();
        let words = before.to_string_lossy().into_owned();
        let words: Vec<&str> = words.split_whitespace().collect();
        // Two words.
        let is_there = |option: &&&str| words.contains(*option);
        let added: Vec<&str> = match variable {
            "ERL_FLAGS" if words.contains(&"+JPperf") => Vec::new(),
            "ERL_FLAGS" => options.to_vec(),
            _ => options
                .iter()
                .filter(|option| !is_there(option))
                .copied()
                .collect(),
        };
        if added.is_empty() {
            continue;
        }
        let added = added.join(" ");
        let is_addition = !words.is_empty();
        let mut value = before;
        if is_addition {
            value.push(" ");
        }
        value.push(&added);
        changes.push(Change {
            variable,
            value,
            added,
            is_addition,
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)], has_erlang: bool) -> Vec<(&'static str, String)> {
        let value = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let changes = changes(value, has_erlang).into_iter();
        changes
            .map(|change| (change.variable, change.value.into_string().expect("text")))
            .collect()
    }

    #[test]
    fn what_is_there_stays() {
        let all = of(&[], true);
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "PYTHONPERFSUPPORT",
                "DOTNET_PerfMapEnabled",
                "NODE_OPTIONS",
                "JAVA_TOOL_OPTIONS",
                "ERL_FLAGS"
            ]
        );
        assert!(!of(&[], false).iter().any(|(name, _)| *name == "ERL_FLAGS"));
        let set = [
            ("PYTHONPERFSUPPORT", "0"),
            ("NODE_OPTIONS", "--max-old-space-size=100 --perf-basic-prof"),
            ("JAVA_TOOL_OPTIONS", "-Dx=y"),
            ("ERL_FLAGS", "+JPperf map"),
        ];
        let some = of(&set, true);
        let value = |name: &str| {
            let found = some.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("PYTHONPERFSUPPORT"), None);
        assert_eq!(
            value("NODE_OPTIONS"),
            Some("--max-old-space-size=100 --perf-basic-prof --interpreted-frames-native-stack")
        );
        let java = value("JAVA_TOOL_OPTIONS").expect("it is changed");
        assert!(java.starts_with("-Dx=y -XX:+Ignore"), "{java}");
        assert_eq!(value("ERL_FLAGS"), None);
    }

    #[test]
    fn additions_are_told_as_such() {
        let value = |name: &str| (name == "NODE_OPTIONS").then(|| "--a".into());
        let told: Vec<String> = changes(value, false)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told[0], "PYTHONPERFSUPPORT=1");
        assert!(
            told[2].starts_with("NODE_OPTIONS with --perf-basic-prof"),
            "{told:?}"
        );
    }
}
