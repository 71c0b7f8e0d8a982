//! Hostile names of functions, threads, programs and source files must be harmless in every output.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::{Here, Run, c_with, folded, needs, well_formed};

/// Names, with the placeholders in `hostile.c` that they replace.
const NAMES: [(&[u8], &[u8]); 4] = [
    (
        b"placeholder_of_the_first_function_______________________________",
        b"\x1b[2J\x1b]0;owned\x07;split in two\n<script>alert(1)</script>\r",
    ),
    (
        b"placeholder_of_the_second_function______________________________",
        b"\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8fnrut\xff\xfe\xc0\x80\x9b31m\xc2\x9b31m\x7f]]>",
    ),
    (
        b"placeholder_of_an_inlined_function______________________________",
        b"</title></g><script>alert(2)</script>;&\"'\t\x1b[31m\x08 3",
    ),
    (
        b"placeholder_of_a_source_file_______________________________.c",
        b"/\x1b[3J\n;<script>alert(3)</script>\xe2\x80\xa8\xff",
    ),
];
/// Thread name of the maximum length.
const COMM: &[u8] = b"\x1b[7m;<b>\n\xe2\x80\xae&";
const FILE: &[u8] = b"evil;\x1b[2J<script>alert(4)<b>\n\xe2\x80\xae\xff 9";

fn recorded(here: &Here) -> Run {
    let program = c_with("hostile.c", &["-g", "-Wl,--build-id"]);
    let mut bytes = std::fs::read(program).expect("a program");
    for (placeholder, name) in NAMES {
        let mut filled = name.to_vec();
        filled.resize(placeholder.len(), b'x');
        let places: Vec<usize> = (bytes.windows(placeholder.len()).enumerate())
            .filter(|(_, window)| *window == placeholder)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "{placeholder:?}");
        for at in places {
            bytes[at..at + filled.len()].copy_from_slice(&filled);
        }
    }
    let filled = here.path("filled");
    std::fs::write(&filled, bytes).expect("written");
    std::fs::set_permissions(&filled, PermissionsExt::from_mode(0o755)).expect("executable");
    let path: PathBuf = here.copy(&filled, OsStr::from_bytes(FILE));
    let record = here.rprof("record -F 999 -g -e cpu-clock --").arg(&path);
    record.arg("0.3").arg(OsStr::from_bytes(COMM)).ok()
}

/// The output has no terminal control sequences and no bidirectional overrides.
fn inert(run: &Run) -> &Run {
    run.is_clean();
    for text in [run.out(), run.err()] {
        let marks = ['\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'];
        assert!(!text.contains(marks), "a mark in\n{run}");
    }
    // Other encodings may read invalid UTF-8 as C1 control characters.
    assert!(
        std::str::from_utf8(run.bytes()).is_ok(),
        "not UTF-8:\n{run}"
    );
    run
}

#[test]
fn hostile_names_are_inert_in_every_output() {
    needs!(PerfEvents);
    let here = Here::new();
    inert(&recorded(&here));
    let run = |args: &str| {
        let run = here.rprof(args).ok();
        inert(&run);
        run
    };

    let report = run("report --sort comm,dso,symbol,srcline --no-children");
    report.prints("owned").prints("alert(4)");
    for line in report.out().lines().filter(|line| !line.starts_with('#')) {
        let share = line.split_whitespace().next().unwrap_or_default();
        assert!(share.ends_with('%'), "{line:?} is no row");
    }
    run("report");
    run("report --demangle none --sort dso").prints("evil");
    run("report --no-inline --sort symbol").prints("owned");
    run("header").prints("evil");

    let script = run("script -F comm,pid,time,event,ip,sym,symoff,dso,srcline");
    script.prints("owned").prints("alert(2)");
    for line in script.out().lines() {
        assert!(
            !line.starts_with("<script>") && !line.starts_with("[2J"),
            "{line:?}"
        );
    }

    let csv = run("report --format csv --sort comm,dso,symbol,srcline");
    for line in csv.out().lines() {
        assert!(
            line.starts_with("event,") || line.starts_with("cpu-clock,"),
            "{line:?}"
        );
    }

    for args in [
        "report --format json --sort comm,dso,symbol,srcline",
        "header --format json",
    ] {
        let json = run(args);
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(json.bytes());
        let values = parsed.unwrap_or_else(|error| panic!("{error} in\n{json}"));
        let mut strings = Vec::new();
        collect(&values, &mut strings);
        // JSON escapes would be active again after parsing.
        for text in strings {
            assert!(
                !text.contains(|c: char| c.is_control() || c == '\u{202e}'),
                "{text:?}"
            );
        }
    }
}

#[test]
fn hostile_names_do_not_split_folded_stacks() {
    needs!(PerfEvents);
    let here = Here::new();
    recorded(&here);
    let collapse = here.rprof("collapse").ok();
    let stacks = folded(inert(&collapse));
    let (mut first, mut inlined) = (false, false);
    for stack in stacks.keys() {
        let frames: Vec<&str> = stack.split(';').collect();
        for frame in &frames {
            assert!(!frame.starts_with("split in two"), "{stack:?}");
            assert!(!frame.starts_with("<b>"), "{stack:?}");
        }
        first |= frames
            .iter()
            .any(|f| f.contains("owned") && f.contains("split in two"));
        inlined |= frames
            .iter()
            .any(|f| f.contains("</title></g><script>alert"));
    }
    assert!(first && inlined, "{stacks:?}");
}

#[test]
fn hostile_names_are_text_in_svg() {
    needs!(PerfEvents);
    let here = Here::new();
    recorded(&here);
    inert(&here.rprof("flamegraph").ok());
    let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("UTF-8");
    let titles = well_formed(&svg);
    for text in ["split in two", "</title></g><script>alert"] {
        assert!(
            titles.iter().any(|title| title.contains(text)),
            "{titles:?}"
        );
    }
    for number in 1..=4 {
        assert!(
            !svg.contains(&format!("<script>alert({number})")),
            "{number} is markup"
        );
    }
    let own = svg.matches("<script").count();
    assert_eq!(own, 2, "of inferno and of rprof, and no others");
    let marks = ['\u{1b}', '\u{202e}', '\u{2066}', '\u{9b}', '\u{7f}'];
    assert!(!svg.contains(marks));
}

fn collect(value: &serde_json::Value, strings: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => strings.push(text.clone()),
        serde_json::Value::Array(values) => values.iter().for_each(|v| collect(v, strings)),
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                strings.push(name.clone());
                collect(value, strings);
            }
        }
        _ => {}
    }
}
