//! A comparison as text: the verdict, both sides, and the changed functions.

use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use rprof_profile::compare::{FunctionDiff, ProfileDiff};

use super::DiffOptions;
use super::amount::{amount, change, limit};
use super::cautions;
use super::rows::{for_people, note, sign};
use super::words;
use crate::clean::{clean, shorten};
use crate::generics::elide_arguments;

/// Writes the verdict and the table.
///
/// # Errors
/// Fails if the writer does.
pub fn write(diff: &ProfileDiff, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let chosen = for_people(diff, options);
    if !options.bare {
        writeln!(out, "# {}", words::headline(diff))?;
        for side in words::sides(diff) {
            writeln!(out, "# {side}")?;
        }
        writeln!(out, "# {}", words::whole(diff))?;
        for caution in cautions::relevant(diff) {
            writeln!(out, "# {}", cautions::caution(caution))?;
        }
        for rename in words::renames(diff) {
            writeln!(out, "# {rename}")?;
        }
        writeln!(out, "# {}", words::tally(diff))?;
        if let Some(plan) = words::plan(diff).filter(|_| options.plans) {
            writeln!(out, "# {plan}")?;
        }
        if chosen.none_marked && !chosen.rows.is_empty() && !options.all {
            writeln!(
                out,
                "# no function certainly changed by {} or more; the largest differences:",
                limit(diff.threshold)
            )?;
        }
        writeln!(out, "#")?;
    }
    if !chosen.rows.is_empty() {
        write_rows(diff, &chosen.rows, options, out)?;
    }
    for (count, why) in chosen.hidden.into_iter().filter(|_| !options.bare) {
        writeln!(out, "{}", (options.rest)(count, why))?;
    }
    Ok(())
}

/// Width of the columns before the names.
const FIGURES: usize = 64;

fn write_rows(
    diff: &ProfileDiff,
    rows: &[&FunctionDiff],
    options: &DiffOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !options.bare {
        writeln!(out, "# {:<27}  {:<27}", "self", "total")?;
        write!(out, "# {:>8} {:>9} {:>8}", "old", "new", "change")?;
        write!(out, "  {:>9} {:>9} {:>8}", "old", "new", "change")?;
        writeln!(out, "     function, object")?;
    }
    for row in rows {
        let figures = |of: &rprof_profile::compare::Change| {
            let shown = |value: f64| match value > 0.0 {
                true => amount(diff, value),
                false => "-".into(),
            };
            [shown(of.old), shown(of.new), change(of)]
        };
        let ([a, b, c], [d, e, f]) = (figures(&row.own), figures(&row.total));
        let sign = sign(row);
        let line = format!("{a:>10} {b:>9} {c:>8}  {d:>9} {e:>9} {f:>8}");
        let painted = match (options.color, sign.chars().next()) {
            (true, Some('▲')) => paint(&format!("{line} {sign:<2}"), AnsiColor::Red),
            (true, Some('▼')) => paint(&format!("{line} {sign:<2}"), AnsiColor::Green),
            _ => format!("{line} {sign:<2}"),
        };
        writeln!(out, "{painted} {}", names(diff, row, options.width))?;
    }
    Ok(())
}

fn names(diff: &ProfileDiff, row: &FunctionDiff, width: Option<usize>) -> String {
    let name = words::full_name(row);
    let object = match row.name {
        Some(_) if &*row.object != "[unknown]" => format!("  {}", clean(&row.object)),
        _ => String::new(),
    };
    let note = match note(diff, row) {
        none if none.is_empty() => none,
        note => format!("  ({note})"),
    };
    let Some(width) = width else {
        return format!("{name}{object}{note}");
    };
    let room = width.saturating_sub(FIGURES).max(20);
    let others = (object.chars().count() + note.chars().count()).min(room / 2);
    let name = match name.chars().count() > room - others {
        true => elide_arguments(&name).into_owned(),
        false => name,
    };
    let name = shorten(&name, room - others).into_owned();
    let left = room.saturating_sub(name.chars().count());
    let others = format!("{object}{note}");
    let others = match others.chars().count() > left {
        true => Cow::Owned(
            others
                .chars()
                .take(left.saturating_sub(1))
                .chain(['…'])
                .collect(),
        ),
        false => Cow::Borrowed(&*others),
    };
    format!("{name}{others}")
}

fn paint(text: &str, color: AnsiColor) -> String {
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}
