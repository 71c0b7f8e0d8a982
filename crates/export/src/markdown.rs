//! The top functions as Markdown, for a comment or a page.
//!
//! GitHub limits comments to 65,536 characters, so the rows stop earlier.

use std::io::{self, Write};

use rprof_profile::Profile;
use rprof_profile::unit::inflected;

use crate::clean::shorten;
use crate::generics::elide_arguments;
use crate::markdown_text::{code, escaped};
use crate::names::CleanNames;
use crate::options::ReportOptions;
use crate::rows::{COMM, ReportRow, ReportRows, RowOptions, in_order, percent, rows, title};
use crate::table::has_cpu_column;
use crate::{tree, verdict};

const ROWS: usize = 20;

/// No row begins after this many bytes.
const LIMIT: usize = 50_000;

const NAME: usize = 100;

/// Writes a heading, the quality verdict and a table for each event that has samples.
///
/// # Errors
/// Fails if the writer does.
pub fn write(profile: &Profile, options: &ReportOptions, out: &mut dyn Write) -> io::Result<()> {
    let names = CleanNames::new(profile);
    let mut written = 0;
    let mut any = false;
    for (index, event) in profile.events.iter().enumerate() {
        if event.samples == 0 {
            continue;
        }
        if !options.bare {
            let name = code(&names.event(index));
            let samples = inflected(event.samples, "sample");
            writeln!(out, "**{name}: {} {samples}**\n", event.samples)?;
            if !any {
                write_verdict(profile, options, out)?;
            }
        }
        any = true;
        write_event(profile, index, options, &mut written, out)?;
        writeln!(out)?;
    }
    if !any {
        writeln!(out, "No samples.\n")?;
        write_verdict(profile, options, out)?;
    }
    Ok(())
}

fn write_verdict(
    profile: &Profile,
    options: &ReportOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let findings = verdict::findings(profile);
    for finding in &findings {
        let text = (options.wording)(finding);
        // Indented lines are causes of the finding above.
        let (indent, text) = match text.strip_prefix("  ") {
            Some(rest) => ("  ", rest),
            None => ("", &*text),
        };
        writeln!(out, "{indent}- {}", escaped(text))?;
    }
    match findings.is_empty() {
        true => Ok(()),
        false => writeln!(out),
    }
}

fn write_event(
    profile: &Profile,
    event: usize,
    options: &ReportOptions,
    written: &mut usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let wanted = RowOptions {
        one_name: true,
        limit: options.rows.limit.or(Some(ROWS)),
        without_zeros: options.rows.limit.is_none(),
        ..options.rows.clone()
    };
    let ReportRows {
        whole,
        rows,
        left_out,
    } = rows(profile, event, &wanted);
    let has_total = !wanted.without_total;
    let mut columns = columns(&rows);
    in_order(&mut columns, &wanted.order, |(heading, _)| *heading);
    let samples = profile.events[event].samples;
    let has_cpu = has_cpu_column(&profile.events[event].name);
    let mut figures = vec!["self"];
    figures.extend(has_total.then_some("total"));
    figures.extend(has_cpu.then_some("cpu"));
    figures.push("samples");
    write!(out, "| {} |", figures.join(" | "))?;
    columns.iter().try_for_each(|(heading, _)| {
        let title = title(profile, heading);
        let title = match title == *heading {
            true => title,
            false => code(&shorten(&title, NAME)).into(),
        };
        write!(out, " {title} |")
    })?;
    write!(out, "\n|{}", "---:|".repeat(figures.len()))?;
    columns.iter().try_for_each(|_| write!(out, "---|"))?;
    writeln!(out)?;
    for (shown, row) in rows.iter().enumerate() {
        let share = |weight| format!("{:.2}%", percent(weight, whole));
        let mut line = format!("| {} |", share(row.top.self_weight));
        if has_total {
            line.push_str(&format!(" {} |", share(row.top.total_weight)));
        }
        if has_cpu {
            line.push_str(&format!(
                " {:.2}% |",
                percent(row.top.self_samples, samples)
            ));
        }
        line.push_str(&format!(" {} |", row.top.self_samples));
        for (heading, text) in &columns {
            let text = text(row).unwrap_or_default();
            let text = match *heading {
                "symbol" if text.chars().count() > NAME => elide_arguments(&text).into_owned(),
                _ => text,
            };
            line.push_str(&format!(" {} |", code(&shorten(&text, NAME))));
        }
        *written += line.len();
        if *written > LIMIT {
            return writeln!(out, "\n… {} more", rows.len() - shown + left_out);
        }
        writeln!(out, "{line}")?;
    }
    if left_out > 0 {
        writeln!(out, "\n… {left_out} more")?;
    }
    write_trees(profile, &rows, whole, &wanted, written, out)
}

fn write_trees(
    profile: &Profile,
    rows: &[ReportRow<'_>],
    whole: u64,
    wanted: &RowOptions,
    written: &mut usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(trees) = &wanted.trees else {
        return Ok(());
    };
    for row in rows {
        let Some(tree) = &row.tree else { continue };
        let lines = tree::lines(profile, tree, whole, trees, 0, Some(NAME));
        *written += lines.iter().map(String::len).sum::<usize>();
        if lines.is_empty() || *written > LIMIT {
            continue;
        }
        let name = row.symbol.as_deref().or(row.object.as_deref());
        let name = code(&shorten(name.unwrap_or("[unknown]"), NAME));
        writeln!(out, "\n{name}\n\n<pre>")?;
        for line in lines {
            writeln!(out, "{}", escaped(&line))?;
        }
        writeln!(out, "</pre>")?;
    }
    Ok(())
}

type Text = fn(&ReportRow<'_>) -> Option<String>;

fn columns(rows: &[ReportRow<'_>]) -> Vec<(&'static str, Text)> {
    let all: [(&'static str, Text); 8] = [
        (COMM, |r| r.comm.as_deref().map(str::to_owned)),
        ("pid", |r| r.top.key.pid.map(|p| p.to_string())),
        ("tid", |r| r.top.key.tid.map(|t| t.to_string())),
        ("state", |r| r.state.as_deref().map(str::to_owned)),
        ("language", |r| r.language.map(str::to_owned)),
        ("source:line", |r| r.line.as_deref().map(str::to_owned)),
        ("symbol", |r| r.symbol.as_deref().map(str::to_owned)),
        ("object", |r| {
            let path = r.object.as_deref()?;
            Some(path.rsplit('/').next().unwrap_or(path).to_owned())
        }),
    ];
    let has = |text: Text| rows.iter().any(|row| text(row).is_some());
    all.into_iter().filter(|(_, text)| has(*text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{ProfileBuilder, WeightUnit};

    fn markdown(options: &ReportOptions) -> String {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
        let (thread, object) = (
            builder.intern_thread_name("t"),
            builder.intern_object("/a/lib"),
        );
        let [main, hot] = ["main", "f<T>|x"].map(|name| builder.intern_function(Ok(name), object));
        let stack = builder.intern_stack(&[main, hot]);
        builder.add_samples(event, thread, stack, 3, 10);
        let mut out = Vec::new();
        write(&builder.finish(), options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_are_cells_of_a_table_and_names_nothing_but_text() {
        let text = markdown(&ReportOptions::default());
        let row = "| 100.00% | 100.00% | 3 | <code>f&lt;T&gt;&#124;x</code> | <code>lib</code> |";
        assert!(text.lines().any(|line| line == row), "{text}");
        let heading = "| self | total | samples | symbol | object |\n|---:|---:|---:|---|---|\n";
        assert!(text.contains(heading), "{text}");
        assert!(
            text.starts_with("**<code>cycles</code>: 3 samples**\n"),
            "{text}"
        );
    }

    #[test]
    fn without_callers_there_is_no_total() {
        let options = ReportOptions {
            rows: RowOptions {
                without_total: true,
                ..RowOptions::default()
            },
            bare: true,
            ..ReportOptions::default()
        };
        let text = markdown(&options);
        assert!(text.starts_with("| self | samples | symbol | object |\n|---:|---:|---|---|\n"));
    }
}
