//! The top functions as text.

use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use rprof_profile::Profile;
use rprof_profile::unit::inflected;
use rprof_profile::waits::{is_by_latency, is_of_waits, is_of_wall_clock};

use crate::clean::shorten;
use crate::generics::elide_arguments;
use crate::names::CleanNames;
use crate::options::ReportOptions;
use crate::rows::{COMM, ReportRow, ReportRows, in_order, percent, rows, title};
use crate::verdict::Finding;
use crate::wrap::wrap;
use crate::{tree, verdict};

/// Writes a table for each event with samples, below a description of the recording and the
/// verdict.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let names = CleanNames::new(profile);
    let mut any = false;
    // Plus one for the shell prompt.
    let mut above = 1;
    let width = options.width.unwrap_or(usize::MAX);
    let findings = verdict::findings(profile);
    // Idle threads belong to shown waits.
    let waits = profile
        .waits()
        .filter(|waits| profile.events[*waits].samples > 0);
    for (index, event) in profile.events.iter().enumerate() {
        if event.samples == 0 {
            continue;
        }
        if any {
            writeln!(out)?;
        }
        if !options.bare {
            let heading = format!(
                "event {}: {} {}, {}",
                names.event(index),
                event.samples,
                inflected(event.samples, "sample"),
                names.weight(index)
            );
            above += put_comment(&heading, width, out)?;
            let here: Vec<&Finding> = (findings.iter())
                .filter(|finding| match (finding, waits) {
                    (Finding::Idle { .. }, Some(waits)) => index == waits,
                    _ => !any,
                })
                .collect();
            for line in verdict_lines(here, options) {
                above += put_comment(&line, width, out)?;
            }
            writeln!(out, "#")?;
            // Headings, hidden rows.
            above += 3;
        }
        any = true;
        write_event(profile, index, options, above, out)?;
    }
    if !any {
        writeln!(out, "# no samples")?;
        for finding in &findings {
            put_comment(&(options.wording)(finding), width, out)?;
        }
    }
    Ok(())
}

/// Minimum percentage of self or of frames to report unnamed code. JSON reports all.
const MINOR: f64 = 1.0;

/// A short verdict omits the percentage of complete stacks from this value on.
const GOOD_STACKS: f64 = 95.0;

/// Returns the lines of the verdict. With a height, stacks and frames share one line, so that a
/// good recording needs only three.
fn verdict_lines(mut findings: Vec<&Finding>, options: &ReportOptions) -> Vec<String> {
    findings.retain(|finding| match finding {
        Finding::Unnamed { own, share, .. } => *own >= MINOR || *share >= MINOR,
        _ => true,
    });
    let mut lines: Vec<String> = (findings.iter().copied()).map(options.wording).collect();
    if let (
        Some(_),
        [
            Finding::Stacks { complete, .. },
            Finding::Frames { named, located },
            ..,
        ],
    ) = (options.height, &*findings)
        && *complete >= GOOD_STACKS
    {
        let located = match *located >= 0.05 {
            true => format!(", {located:.1}% located"),
            false => String::new(),
        };
        let frames = format!("{}; frames: {named:.1}% named{located}", lines[0]);
        lines.splice(..2, [frames]);
    }
    lines
}

fn write_event(
    profile: &Profile,
    event: usize,
    options: &ReportOptions,
    above: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut wanted = options.rows.clone();
    wanted.one_name = true;
    if let Some(height) = options.height {
        wanted.limit = Some(height.saturating_sub(above).max(MIN_ROWS));
        wanted.without_zeros = true;
    }
    let ReportRows {
        whole,
        rows,
        left_out,
    } = rows(profile, event, &wanted);
    let has_total = !wanted.without_total;
    let samples = profile.events[event].samples;
    let has_cpu = has_cpu_column(&profile.events[event].name);
    let taken = if has_cpu { CPU_COLUMN } else { 0 };
    let width = options.width.map(|width| width.saturating_sub(taken));
    let columns = columns(profile, &rows, width, &wanted.order);
    if !options.bare {
        let total = if has_total { "    total" } else { "" };
        let cpu = if has_cpu { "      cpu" } else { "" };
        write!(out, "# {:>6}{total}{cpu} {:>9}", "self", "samples")?;
        for (i, column) in columns.iter().enumerate() {
            put_column(out, &column.title, column.width, i + 1 == columns.len())?;
        }
        writeln!(out)?;
    }
    for (index, row) in rows.iter().enumerate() {
        let share = |weight| percent(weight, whole);
        let (own, total) = (share(row.top.self_weight), share(row.top.total_weight));
        let painted = |share| painted(share, options.color);
        write!(out, "{}", painted(own))?;
        if has_total {
            write!(out, " {}", painted(total))?;
        }
        if has_cpu {
            write!(out, " {}", painted(percent(row.top.self_samples, samples)))?;
        }
        write!(out, " {:>9}", row.top.self_samples)?;
        for (i, column) in columns.iter().enumerate() {
            let text = column.texts.get(index).map_or("", |text| text);
            put_column(out, text, column.width, i + 1 == columns.len())?;
        }
        writeln!(out)?;
        if let (Some(tree), Some(trees)) = (&row.tree, &options.rows.trees) {
            for line in tree::lines(profile, tree, whole, trees, INDENT, options.width) {
                writeln!(out, "{line}")?;
            }
        }
    }
    match options.rest {
        Some(rest) if left_out > 0 => writeln!(out, "{}", rest(left_out)),
        _ => Ok(()),
    }
}

/// Returns true if a column shows the share of CPU time: the share of the samples, each counted as
/// one. Weights by latency do not show it, and a wait is one sample of any length.
pub(crate) fn has_cpu_column(event: &str) -> bool {
    is_by_latency(event) && !is_of_waits(event) && !is_of_wall_clock(event)
}

const MIN_ROWS: usize = 10;

/// Writes a wrapped comment. Returns its number of lines.
fn put_comment(text: &str, width: usize, out: &mut dyn Write) -> io::Result<usize> {
    let lines = wrap(text, width.saturating_sub(2));
    for (index, line) in lines.iter().enumerate() {
        let indent = if index == 0 { "" } else { "  " };
        writeln!(out, "# {indent}{line}")?;
    }
    Ok(lines.len())
}

/// Width of the columns before the names.
const FIGURES: usize = 27;

/// Width of the column of CPU time.
const CPU_COLUMN: usize = 9;

const INDENT: usize = 11;

pub(crate) struct Column<'r> {
    heading: &'static str,
    /// Shown heading.
    pub(crate) title: Cow<'r, str>,
    pub(crate) width: usize,
    pub(crate) texts: Vec<Cow<'r, str>>,
}

type Text = for<'r> fn(&'r ReportRow<'_>) -> Option<Cow<'r, str>>;

/// Maximum column width without a terminal width. Most C++ names fit.
const MAX_COLUMN: usize = 250;

pub(crate) fn columns<'r>(
    profile: &'r Profile,
    rows: &'r [ReportRow<'_>],
    width: Option<usize>,
    order: &[&str],
) -> Vec<Column<'r>> {
    let object: Text = match width {
        Some(_) => |r| r.object.as_deref().map(|name| base_name(name).into()),
        None => |r| r.object.as_deref().map(Cow::from),
    };
    let all: [(&'static str, Text); 8] = [
        (COMM, |r| r.comm.as_deref().map(Cow::from)),
        ("pid", |r| r.top.key.pid.map(|p| p.to_string().into())),
        ("tid", |r| r.top.key.tid.map(|t| t.to_string().into())),
        ("state", |r| r.state.as_deref().map(Cow::from)),
        ("language", |r| r.language.map(Cow::from)),
        ("source:line", |r| {
            r.line.as_deref().map(|line| last_folder(line).into())
        }),
        ("symbol", |r| r.symbol.as_deref().map(Cow::from)),
        ("object", object),
    ];
    let mut columns: Vec<Column<'r>> = (all.into_iter())
        .filter_map(|(heading, text)| {
            let mut any = false;
            let texts: Vec<_> = (rows.iter())
                .map(|row| text(row).inspect(|_| any = true).unwrap_or_default())
                .collect();
            let widest = texts.iter().map(|text| text.chars().count()).max()?;
            let title = title(profile, heading);
            any.then_some(Column {
                heading,
                width: widest.max(title.chars().count()),
                title,
                texts,
            })
        })
        .collect();
    match width {
        Some(width) => {
            let room = width.saturating_sub(FIGURES);
            leave_out_columns(&mut columns, room);
            fit_columns(&mut columns, room);
        }
        // One very long name must not widen all rows.
        None => (columns.iter_mut()).for_each(|c| c.width = c.width.min(MAX_COLUMN)),
    }
    in_order(&mut columns, order, |column| column.heading);
    columns
}

const GAP: usize = 2;

/// Width to which a column may be narrowed.
const MINIMUM: usize = 12;

/// Leaves out columns beside the symbols, if there is no room for them at their least width. A
/// terminal would wrap each row.
fn leave_out_columns(columns: &mut Vec<Column<'_>>, room: usize) {
    for heading in ["object", "language", "source:line"] {
        let least = columns.iter().map(|c| GAP + c.width.min(MINIMUM));
        let has_symbols = columns.iter().any(|column| column.heading == "symbol");
        if has_symbols && least.sum::<usize>() > room {
            columns.retain(|column| column.heading != heading);
        }
    }
}

/// Narrows columns to `room`. The symbol column, or else the last one, gets the rest. Others get at
/// most a quarter each.
fn fit_columns(columns: &mut [Column<'_>], room: usize) {
    let room = room.saturating_sub(GAP * columns.len());
    if columns.iter().map(|c| c.width).sum::<usize>() <= room {
        return;
    }
    let symbol = columns.iter().position(|c| c.heading == "symbol");
    let rest = symbol.unwrap_or(columns.len().saturating_sub(1));
    let mut left = room;
    // Without neighbours, it has the room of 40 columns.
    let least = if columns.len() == 1 {
        MINIMUM - 1
    } else {
        MINIMUM
    };
    for (_, column) in columns.iter_mut().enumerate().filter(|(i, _)| *i != rest) {
        column.width = column.width.min((room / 4).max(MINIMUM));
        left = left.saturating_sub(column.width);
    }
    if let Some(column) = columns.get_mut(rest) {
        column.width = column.width.min(left.max(least));
    }
    for column in columns {
        for text in column.texts.iter_mut().chain([&mut column.title]) {
            if text.chars().count() > column.width {
                let elided = match column.heading {
                    "symbol" => elide_arguments(text),
                    _ => Cow::Borrowed(&**text),
                };
                *text = Cow::Owned(shorten(&elided, column.width).into_owned());
            }
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the last folder and the file name, because many files are called `mod.rs`.
fn last_folder(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path, |at| &path[at + 1..])
}

const BLANKS: [u8; 64] = [b' '; 64];

pub(crate) fn put_column(
    out: &mut dyn Write,
    text: &str,
    width: usize,
    last: bool,
) -> io::Result<()> {
    write!(out, "  {text}")?;
    // `write!` pads blank by blank.
    let mut blanks = match last {
        true => 0,
        false => width.saturating_sub(text.chars().count()),
    };
    while blanks > 0 {
        let count = blanks.min(BLANKS.len());
        out.write_all(&BLANKS[..count])?;
        blanks -= count;
    }
    Ok(())
}

/// Formats a percentage in eight characters, coloured like perf: red from 5 %, green from 0.5 %.
pub fn painted(share: f64, color: bool) -> String {
    let text = format!("{share:>7.2}%");
    let style = match share {
        s if s >= 5.0 => Style::new().fg_color(Some(AnsiColor::Red.into())),
        s if s >= 0.5 => Style::new().fg_color(Some(AnsiColor::Green.into())),
        _ => return text,
    };
    match color {
        true => format!("{style}{text}{style:#}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::clean;
    use crate::options::ReportOptions;
    use crate::rows::RowOptions;
    use rprof_profile::{Keys, ProfileBuilder, Reason, WeightUnit};

    fn table(names: &[(&str, &str)], options: &ReportOptions) -> String {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let thread = builder.intern_thread_name("t");
        for (i, (name, object)) in names.iter().enumerate() {
            let object = builder.intern_object(object);
            let function = builder.intern_function(Ok(name), object);
            let stack = builder.intern_stack(&[function]);
            builder.add_samples(event, thread, stack, 1, 1000 - i as u64);
        }
        let mut out = Vec::new();
        write(&builder.finish(), options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_fit_into_the_width() {
        let long = "x".repeat(900);
        let templates = format!("std::unordered_map<{long}>::find_in_bucket");
        let names = [
            (&*templates, "/usr/lib/x86_64-linux-gnu/libc.so.6"),
            (&*long, &*long),
            ("main", "/usr/bin/a"),
        ];
        for width in [60, 80, 100, 200] {
            let options = ReportOptions {
                width: Some(width),
                bare: true,
                ..ReportOptions::default()
            };
            let text = table(&names, &options);
            for row in text.lines() {
                assert!(row.chars().count() <= width, "{width}: {row}");
            }
            assert!(
                text.contains("…") && text.contains("  libc.so.6\n"),
                "{text}"
            );
            let fits = width >= 80;
            assert_eq!(fits, text.contains("std::unordered_map<…>::find_in_bucket"));
        }
        let narrow = ReportOptions {
            width: Some(40),
            ..ReportOptions::default()
        };
        let text = table(&names, &narrow);
        assert!(text.lines().all(|row| row.chars().count() <= 40), "{text}");
        assert!(text.contains("main") && !text.contains("libc"), "{text}");
        let options = ReportOptions::default();
        let text = table(&names, &options);
        assert!(text.contains(&*clean(&templates)) && text.contains("/usr/lib/"));
    }

    #[test]
    fn rows_fit_into_the_height_and_none_is_nothing() {
        let names: Vec<String> = (0..60).map(|i| format!("f{i}")).collect();
        let names: Vec<_> = names.iter().map(|name| (&**name, "o")).collect();
        let lines = |height| {
            let options = ReportOptions {
                height: Some(height),
                rest: Some(|n| format!("and {n} more")),
                ..ReportOptions::default()
            };
            table(&names, &options).lines().count()
        };
        assert_eq!([lines(24) + 1, lines(50) + 1], [24, 50]);
        assert_eq!(lines(3), MIN_ROWS + 4);
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("o"));
        let [main, hot] = ["main", "hot"].map(|f| builder.intern_function(Ok(f), object));
        let stack = builder.intern_stack(&[main, hot]);
        builder.add_samples(event, thread, stack, 1, 10);
        let profile = builder.finish();
        let text = |height| {
            let mut out = Vec::new();
            let options = ReportOptions {
                height,
                ..ReportOptions::default()
            };
            write(&profile, &options, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!text(Some(24)).contains("main") && text(None).contains("main"));
    }

    #[test]
    fn a_good_recording_has_three_lines_on_a_terminal() {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("o"));
        let hot = builder.intern_function(Ok("hot"), object);
        let stack = builder.intern_stack(&[hot]);
        builder.add_samples(event, thread, stack, 1000, 1000);
        let mut profile = builder.finish();
        let quality = &mut profile.quality;
        (quality.stacks.total, quality.stacks.complete) = (1000, 999);
        quality.stacks.unwound = 1000;
        (quality.frames, quality.named, quality.located) = (2000, 1988, 12);
        quality.worst = vec![("/usr/bin/bash".into(), Reason::Stripped, 12)];
        let verdict = |height| {
            let options = ReportOptions {
                height,
                width: height.map(|_| 80),
                ..ReportOptions::default()
            };
            let mut out = Vec::new();
            write(&profile, &options, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let lines = text.lines().take_while(|line| *line != "#");
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            verdict(Some(24)),
            [
                "# event cpu-clock: 1000 samples, 0.000 s",
                "# stacks: 99.9% reach their root; frames: 99.4% named, 0.6% located"
            ]
        );
        assert_eq!(verdict(None).len(), 3, "{:?}", verdict(None));
    }

    #[test]
    fn columns_stand_in_the_order_that_is_asked_for() {
        let options = |order: &[&'static str]| ReportOptions {
            rows: RowOptions {
                order: order.to_vec(),
                ..RowOptions::default()
            },
            ..ReportOptions::default()
        };
        let names = [("a", "o")];
        let heading = |order: &[&'static str]| {
            let text = table(&names, &options(order));
            let heading = text.lines().find(|line| line.contains("self")).unwrap();
            let words = heading.split_whitespace().skip(4);
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(heading(&[]), ["symbol", "object"]);
        assert_eq!(heading(&["object", "symbol"]), ["object", "symbol"]);
    }

    #[test]
    fn comments_break_between_words() {
        let mut out = Vec::new();
        let lines = put_comment("one two three four", 12, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!((lines, &*text), (3, "# one two\n#   three\n#   four\n"));
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let options = |limit, rest| ReportOptions {
            rows: RowOptions {
                limit: Some(limit),
                keys: Keys::FUNCTIONS,
                ..RowOptions::default()
            },
            rest,
            ..ReportOptions::default()
        };
        let rest: fn(usize) -> String = |n| format!("and {n} more");
        let names = [("a", "o"), ("b", "o"), ("c", "o")];
        assert!(table(&names, &options(1, Some(rest))).ends_with("a       o\nand 2 more\n"));
        assert!(!table(&names, &options(3, Some(rest))).contains("more"));
        assert!(!table(&names, &options(1, None)).contains("more"));
    }

    #[test]
    fn lines_have_the_folder_of_their_file() {
        assert_eq!(
            last_folder("/rustc/core/src/str/mod.rs:12"),
            "str/mod.rs:12"
        );
        assert_eq!(last_folder("a/b.c:1"), "a/b.c:1");
        assert_eq!(last_folder("??:0"), "??:0");
    }
}
