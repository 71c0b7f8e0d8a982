//! [`SourceName`]: names that runtimes give to functions of their language.
//!
//! Every part of rprof that takes such a name apart does it here. Sources: CPython's
//! `Python/perf_trampoline.c`, V8's `src/logging/log.cc` (`CodeEventListener`, tier marks), JavaScriptCore's `LinkBuffer`, HotSpot's
//! `CodeCache::write_perf_map`, and libperf-jvmti of Linux.

use std::borrow::Cow;

mod java;
mod javascript;
mod parts;

use super::{Language, is_generated};
use crate::frame::{Function, Object};
use crate::runtime::Runtime;
use java::{added_java, java, java_key, java_text};
pub(super) use java::{is_java_interpreter, is_java_stub};
pub use javascript::v8_place;
use javascript::{javascript, jsc};
pub use parts::SourceName;
use parts::with_number;

/// Prefix of Python functions.
pub const PYTHON: &str = "py::";

/// Frames that a profiler puts in place of functions that it could not prove or name.
static GAPS: [(&str, Language); 5] = [
    ("[Python callers unproven]", Language::Python),
    ("[Python function unnamed]", Language::Python),
    ("[JavaScript function unnamed]", Language::JavaScript),
    ("[Java function unnamed]", Language::Java),
    ("[Java callers frozen]", Language::Java),
];

impl<'n> SourceName<'n> {
    /// Parses a name with the prefix of its language: `py::f:/x/app.py:12`,
    /// `JS:*f /x/app.js:4:95`, `Java:a.B.c B.java:12`.
    pub fn parse(name: &'n str) -> Option<SourceName<'n>> {
        (python(name).or_else(|| javascript(name)))
            .or_else(|| jsc(name))
            .or_else(|| added_java(name))
    }

    /// Parses the name of a function, if its code is generated. `None` for a function that already
    /// has a [source](Function::source).
    pub fn of(function: &'n Function, object: &Object) -> Option<SourceName<'n>> {
        let is_raw = function.source.is_none() && is_generated(object);
        let name = function.name.as_deref().ok().filter(|_| is_raw)?;
        SourceName::parse(name).or_else(|| java(name, object.runtime))
    }

    /// Returns the name as people write it, `f`, or `(anonymous)`.
    pub fn bare(&self) -> String {
        match self.language {
            Language::Java if self.is_of_code => java_text(self.name),
            _ if self.name.is_empty() => "(anonymous)".to_owned(),
            _ => self.name.to_owned(),
        }
    }

    /// Returns the name with file and line, `f (app.py:12)`. `parts` is the number of components of
    /// the path to show; 0 shows as few as usual.
    pub fn text(&self, parts: usize) -> String {
        let bare = self.bare();
        let mut place = file_label(self.file, parts).to_owned();
        for number in [self.line, self.column] {
            if number > 0 {
                place.push_str(&format!(":{number}"));
            }
        }
        match place.is_empty() {
            true => bare,
            false => format!("{bare} ({place})"),
        }
    }

    /// Returns the common part of all names of a function: the name and the file. HotSpot's names of
    /// code have parameters and no file.
    pub(super) fn key(&self) -> (Language, Cow<'n, str>, &'n str) {
        match self.language {
            Language::Java => (self.language, java_key(&self.bare()).into(), ""),
            _ => (self.language, self.name.into(), self.file),
        }
    }

    /// Returns whether two names stand for one function. Unknown lines match all.
    pub fn is_same(&self, other: &SourceName<'_>) -> bool {
        (self.language, self.name, self.file) == (other.language, other.name, other.file)
            && (self.line == other.line || self.line == 0 || other.line == 0)
            && (self.column == other.column || self.column == 0 || other.column == 0)
    }
}

pub(super) fn is_generated_plumbing(name: &str, runtime: Option<Runtime>) -> bool {
    javascript::is_plumbing(name) || java::is_plumbing(name, runtime)
}

/// Returns the language of a gap's frame, before it has a [source](Function::source).
pub(super) fn language_of_gap(function: &Function, object: &Object) -> Option<Language> {
    let name = function.name.as_deref().ok()?;
    let is_new = function.source.is_none() && is_generated(object);
    gap(name).filter(|_| is_new)
}

/// Returns the language of functions that a frame of this name stands for, such as
/// `[Python callers unproven]`; `None` for functions with a name of their own.
pub fn gap(name: &str) -> Option<Language> {
    let found = GAPS.iter().find(|(gap, _)| *gap == name);
    found.map(|(_, language)| *language)
}

fn python(name: &str) -> Option<SourceName<'_>> {
    let rest = name.strip_prefix(PYTHON)?;
    let (name, place) = rest.split_once(':').unwrap_or((rest, ""));
    let (file, line) = with_number(place).unwrap_or((place, 0));
    Some(SourceName {
        language: Language::Python,
        name,
        file,
        line,
        column: 0,
        is_of_code: line == 0,
    })
}

/// File names that say nothing without their folder.
const GENERIC: [&str; 6] = [
    "__init__.py",
    "__main__.py",
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
];

/// Returns the end of a path that identifies a file for people: its name, with the folder of
/// `__init__.py` and similar files, or the last `parts` components.
///
/// The label depends on nothing else, so two recordings of a program have equal names. A label
/// relative to a common root would change with each file that a sample meets.
fn file_label(path: &str, parts: usize) -> &str {
    if path.starts_with("node:") || path.starts_with('<') {
        return path;
    }
    let path = path.strip_prefix("file://").unwrap_or(path);
    let base = path.rsplit('/').next().unwrap_or(path);
    let parts = match parts {
        0 if GENERIC.contains(&base) => 2,
        0 => 1,
        parts => parts,
    };
    let start = path.rmatch_indices('/').nth(parts - 1);
    start.map_or(path, |(at, _)| &path[at + 1..])
}

/// Returns the language and the start of the place of a name as [`SourceName::text`] writes it:
/// `f (app.py:12)`. `None` for other names.
pub fn place_of_text(name: &str) -> Option<(Language, usize)> {
    let inside = name.strip_suffix(')')?;
    let at = inside.rfind(" (")?;
    let place = &inside[at + 2..];
    let file = with_number(place).map_or(place, |(rest, _)| rest);
    let file = with_number(file).map_or(file, |(rest, _)| rest);
    let has_line = file.len() < place.len();
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| file.ends_with(suffix));
    let language = match file {
        _ if ends(&[".py", ".pyw", ".pyx"]) => Language::Python,
        _ if ends(&[".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"]) => Language::JavaScript,
        _ if ends(&[".java", ".kt", ".scala", ".groovy", ".clj"]) && has_line => Language::Java,
        _ if file.starts_with("node:") => Language::JavaScript,
        _ if file.starts_with('<') && file.ends_with('>') => Language::Python,
        _ => return None,
    };
    (at > 0).then_some((language, at))
}

#[cfg(test)]
mod tests;
