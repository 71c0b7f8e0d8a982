//! A comparison as Markdown, for a comment on a change.
//!
//! Comments of GitHub end at 65,536 characters: rows stop before.

use std::io::{self, Write};

use rprof_profile::compare::{FunctionDiff, ProfileDiff};

use super::DiffOptions;
use super::amount::{amount, change, interval};
use super::rows::{for_people, note, sign};
use super::words;
use crate::clean::shorten;

/// Comment by which a bot finds what it wrote before.
pub const MARKER: &str = "<!-- rprof-diff -->";

/// Rows that are seen at once; the others are folded away.
const OPEN: usize = 10;

/// Bytes after which no row begins.
const MOST: usize = 50_000;

/// Characters of a name.
const NAME: usize = 100;

/// Writes the verdict and the table.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let chosen = for_people(diff, options);
    if !options.bare {
        writeln!(out, "{MARKER}")?;
        writeln!(out, "**{}**\n", escaped(&words::headline(diff)))?;
        writeln!(out, "{}\n", escaped(&words::whole(diff)))?;
        for caution in &diff.cautions {
            writeln!(out, "- {}", escaped(&words::caution(caution)))?;
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
        if *written > MOST {
            return writeln!(out, "| | … | | | | |");
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns a name as code in a cell of a table.
fn code(name: &str) -> String {
    format!("<code>{}</code>", escaped(name))
}

/// Returns text that is nothing but text: no markup, no link, no mention of anybody, no end of a cell.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '@' | '#' | '!' => {
                out.push_str(&format!("&#{};", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    // Addresses become links by themselves.
    out.replace("://", "&#58;//").replace("www.", "www&#46;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nothing_but_text() {
        let hostile = "<img src=x>|`@user [a](http://b) **c** www.d";
        let shown = code(hostile);
        for markup in ["<img", "|", "`", "@", "](", "**", "://", "www."] {
            assert!(!shown.contains(markup), "{markup}: {shown}");
        }
        assert_eq!(code("a::b<c>"), "<code>a::b&lt;c&gt;</code>");
    }
}
