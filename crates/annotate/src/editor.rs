//! Sums by file and line as JSON, for editors. The format is stable: releases only add fields.
//!
//! Positions follow the Language Server Protocol 3.17 ("Range", "URI"): lines count from 0,
//! and a range ends before its last position. So an extension shows `title` at `range` as it is.
//!
//! Unlike an [`Annotation`](crate::Annotation), which belongs to one function, the sums are of the
//! whole program: self counts samples in code of the line, also if it is inlined elsewhere, and
//! total counts samples with the line anywhere in the stack, once each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rprof_export::clean::clean;
use rprof_profile::pattern::matches_function;
use rprof_profile::{FileId, FunctionId, Keys, Line, Profile, TopFunctions, TopRow, WeighBy};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::amount::Amount;
use crate::json::{JsonHead, write_object};
use crate::sources::Sources;

/// Samples of a profile whose functions are separate by line
/// ([`Options::by_line`](rprof_analysis::Options::by_line)).
#[derive(Clone, Copy, Debug)]
pub struct LinesOfProfile<'a> {
    /// Profile whose functions are separate by line.
    pub profile: &'a Profile,
    /// Index of the event.
    pub event: usize,
    /// Clean name of the event.
    pub name: &'a str,
    /// Unit of the weights: `ns`, the event's generic name, `events`.
    pub unit: &'a str,
    /// Weight of each sample.
    pub weight: WeighBy,
    /// Only lines with code of these functions, as a [pattern](rprof_profile::pattern).
    pub function: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    head: JsonHead<'a>,
    files: Vec<JsonFile<'a>>,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    /// Absent if the path is relative, and no such file was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    /// Path in the debug information.
    path: Cow<'a, str>,
    #[serde(rename = "self")]
    own: u64,
    /// Ascending.
    lines: Vec<JsonLine<'a>>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    range: Range,
    /// Shares in percent of all samples, for people.
    title: String,
    /// Functions with code on this line, most self first.
    functions: Vec<Cow<'a, str>>,
    #[serde(flatten)]
    amount: Amount,
}

#[derive(Serialize)]
struct Range {
    start: Position,
    end: Position,
}

#[derive(Serialize)]
struct Position {
    line: u32,
    character: u32,
}

/// Writes the lines of all files as one JSON object and a newline, the file with most self first.
/// Returns the number of lines.
///
/// # Errors
/// Fails if the writer does.
pub fn write(
    shown: &LinesOfProfile<'_>,
    sources: &mut Sources<'_>,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let (profile, event) = (shown.profile, shown.event);
    let keys = Keys {
        object: false,
        symbol: false,
        line: true,
        ..Keys::FUNCTIONS
    };
    let sums = TopFunctions::of(profile, event, shown.weight, keys);
    let functions = functions_by_line(shown);
    let mut files: BTreeMap<&str, Vec<(Line, TopRow)>> = BTreeMap::new();
    for row in &sums.rows {
        let Some(line) = row.key.line.flatten().filter(|line| line.line > 0) else {
            continue;
        };
        if functions.contains_key(&place(line)) {
            let path = &profile.files[line.file.0 as usize];
            files.entry(path).or_default().push((line, *row));
        }
    }
    let mut count = 0;
    let mut all: Vec<JsonFile<'_>> = (files.into_iter())
        .map(|(path, mut lines)| {
            lines.sort_unstable_by_key(|(line, _)| line.line);
            count += lines.len();
            let own = lines.iter().map(|(_, row)| row.self_weight);
            JsonFile {
                uri: uri(path, sources),
                path: clean(path),
                own: own.fold(0, u64::saturating_add),
                lines: (lines.iter())
                    .map(|(line, row)| {
                        let functions = functions.get(&place(*line)).map_or(&[][..], |list| list);
                        json_line(profile, line.line, row, functions, sums.weight_total)
                    })
                    .collect(),
            }
        })
        .collect();
    // Files of equal self stay in the order of their paths.
    all.sort_by_key(|file| u64::MAX - file.own);
    let report = JsonReport {
        head: JsonHead {
            version: 1,
            event: shown.name,
            unit: shown.unit,
            weight_total: sums.weight_total,
            samples: profile.events.get(event).map_or(0, |event| event.samples),
        },
        files: all,
    };
    write_object(&report, out)?;
    Ok(count)
}

fn place(line: Line) -> (FileId, u32) {
    (line.file, line.line)
}

fn functions_by_line(shown: &LinesOfProfile<'_>) -> FxHashMap<(FileId, u32), Vec<FunctionId>> {
    let keys = Keys {
        object: false,
        line: true,
        ..Keys::FUNCTIONS
    };
    let mut top = TopFunctions::of(shown.profile, shown.event, shown.weight, keys);
    top.sort(false);
    let mut found: FxHashMap<(FileId, u32), Vec<FunctionId>> = FxHashMap::default();
    for row in &top.rows {
        let (Some(function), Some(line)) = (row.key.function, row.key.line.flatten()) else {
            continue;
        };
        let name = shown.profile.function(function).name.as_deref();
        let is_wanted = shown
            .function
            .is_none_or(|pattern| name.is_ok_and(|name| matches_function(pattern, name)));
        if is_wanted {
            found.entry(place(line)).or_default().push(function);
        }
    }
    found
}

fn json_line<'a>(
    profile: &'a Profile,
    line: u32,
    row: &TopRow,
    functions: &[FunctionId],
    whole: u64,
) -> JsonLine<'a> {
    let share = |weight: u64| match whole {
        0 => 0.0,
        _ => 100.0 * weight as f64 / whole as f64,
    };
    let at = |line| Position { line, character: 0 };
    let mut names: Vec<Cow<'a, str>> = Vec::new();
    for function in functions {
        if let Ok(name) = profile.function(*function).name.as_deref() {
            let name = clean(name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    JsonLine {
        range: Range {
            start: at(line - 1),
            end: at(line),
        },
        title: format!(
            "{:.2}% self, {:.2}% total",
            share(row.self_weight),
            share(row.total_weight)
        ),
        functions: names,
        amount: Amount {
            own: row.self_weight,
            total: row.total_weight,
            own_samples: row.self_samples,
            total_samples: row.total_samples,
        },
    }
}

/// Returns the URI of a source file: of the file that was found, or else of an absolute path.
fn uri(path: &str, sources: &mut Sources<'_>) -> Option<String> {
    let found = sources.find(path, None).ok();
    let found = found.and_then(|text| std::path::absolute(text.path.as_ref()?).ok());
    let stated = Path::new(path);
    let path = match &found {
        Some(found) => found.as_path(),
        None if stated.is_absolute() => stated,
        None => return None,
    };
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Filter, folded};

    #[test]
    fn path_of_any_bytes_becomes_a_uri() {
        let mut sources = Sources::default();
        let of = |path: &str, sources: &mut Sources<'_>| uri(path, sources);
        assert_eq!(
            of("/no such folder/ä#?.c", &mut sources).as_deref(),
            Some("file:///no%20such%20folder/%C3%A4%23%3F.c")
        );
        assert_eq!(of("relative.c", &mut sources), None);
    }

    #[test]
    fn profile_without_lines_has_no_files() {
        let text = "main;work 3";
        let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default()).unwrap();
        let shown = LinesOfProfile {
            profile: &profile,
            event: 0,
            name: "samples",
            unit: "samples",
            weight: WeighBy::Period,
            function: None,
        };
        let mut out = Vec::new();
        assert_eq!(write(&shown, &mut Sources::default(), &mut out).unwrap(), 0);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["files"], serde_json::json!([]));
        assert_eq!(json["weight_total"], 3);
    }
}
