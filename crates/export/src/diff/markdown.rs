//! A comparison as Markdown, for a pull request comment.
//!
//! GitHub limits comments to 65,536 characters, so the rows stop earlier.

use std::io::{self, Write};

use rprof_profile::compare::{FunctionDiff, ProfileDiff};

use super::DiffOptions;
use super::amount::{amount, change, interval};
use super::cautions;
use super::rows::{for_people, note, sign};
use super::words;
use crate::clean::{clean, shorten};
use crate::markdown_text::{code, escaped};

/// Returns the marker that a bot searches to find its earlier comment: `<!-- rprof-diff -->`, or
/// `<!-- rprof-gate NAME -->`.
fn marker(name: Option<&str>) -> String {
    let Some(name) = name else {
        return "<!-- rprof-diff -->".into();
    };
    // Two dashes would end the HTML comment.
    let is_plain = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '/');
    let plain = |c: char| if is_plain(&c) { c } else { '-' };
    let mut name: String = clean(name).chars().take(NAME).map(plain).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    format!("<!-- rprof-gate {} -->", name.trim_matches(['-', ' ']))
}

const OPEN: usize = 10;

/// No row begins after this many bytes.
const LIMIT: usize = 50_000;

const NAME: usize = 100;

/// Writes the verdict and the table.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let chosen = for_people(diff, options);
    if !options.bare {
        writeln!(out, "{}", marker(options.name.as_deref()))?;
        writeln!(out, "**{}**\n", escaped(&words::headline(diff)))?;
        writeln!(out, "{}\n", escaped(&words::whole(diff)))?;
        for caution in cautions::relevant(diff) {
            writeln!(out, "- {}", escaped(&cautions::caution(caution)))?;
        }
        if !diff.cautions.is_empty() {
            writeln!(out)?;
        }
    }
    let (open, folded) = chosen.rows.split_at(chosen.rows.len().min(OPEN));
    let mut written = 0;
    write_rows(diff, open, &mut written, out)?;
    if !folded.is_empty() {
        writeln!(out, "\n<details><summary>{} more</summary>\n", folded.len())?;
        write_rows(diff, folded, &mut written, out)?;
        writeln!(out, "\n</details>")?;
    }
    if !options.bare {
        writeln!(out, "\n{}", escaped(&words::tally(diff)))?;
        if let Some(plan) = words::plan(diff).filter(|_| options.plans) {
            writeln!(out, "\n{}", escaped(&plan))?;
        }
    }
    Ok(())
}

fn write_rows(
    diff: &ProfileDiff,
    rows: &[&FunctionDiff],
    written: &mut usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "| | function | self | change | total | change |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for row in rows {
        let sums = |of: &rprof_profile::compare::Change| {
            let change = match interval(of) {
                Some(interval) => format!("{} {interval}", change(of)),
                None => change(of),
            };
            format!(
                "{} → {} | {change}",
                amount(diff, of.old),
                amount(diff, of.new)
            )
        };
        let name = shorten(&words::full_name(row), NAME).into_owned();
        let note = note(diff, row);
        let note = if note.is_empty() {
            note
        } else {
            format!(" ({note})")
        };
        let line = format!(
            "| {} | {}{} | {} | {} |",
            sign(row),
            code(&name),
            escaped(&note),
            sums(&row.own),
            sums(&row.total)
        );
        *written += line.len();
        if *written > LIMIT {
            return writeln!(out, "| | … | | | | |");
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_ends_the_marker() {
        assert_eq!(marker(None), "<!-- rprof-diff -->");
        assert_eq!(marker(Some("a/b 1.2")), "<!-- rprof-gate a/b 1.2 -->");
        for hostile in ["-->", "a--b", "a---->", "--", "a\n-->"] {
            let marker = marker(Some(hostile));
            assert_eq!(marker.matches("--").count(), 2, "{marker}");
        }
    }
}
