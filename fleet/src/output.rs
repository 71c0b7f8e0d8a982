//! Printed results, and output files.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use rprof_export::clean::clean;
use rprof_export::csv::without_formula;
use rprof_output::{Choice, Destination};

use crate::cli::Rows;

/// Prints a note to standard error.
#[expect(
    clippy::print_stderr,
    reason = "the one place of this program that does"
)]
pub fn note(line: &str) {
    eprintln!("{line}");
}

/// Writes the result to standard output. A closed pipe is no error.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the answer"),
    }
}

/// Writes a file atomically, and prints its path.
pub fn write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut file = Destination::of(path, Choice::Typed)
        .and_then(Destination::begin)
        .with_context(failed)?;
    write(&mut file).with_context(failed)?;
    file.finish().with_context(failed)?;
    note(&clean(&format!("wrote {}", path.display())));
    Ok(())
}

/// Returns true if output may be coloured.
pub fn has_color() -> bool {
    let is_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_off
}

/// Returns the terminal width, if standard output is a terminal.
pub fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    columns.filter(|_| io::stdout().is_terminal())
}

/// Prints rows.
pub fn rows(batches: &[RecordBatch], form: Rows, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = batches.first() else {
        return Ok(());
    };
    let options = FormatOptions::default();
    let schema = first.schema();
    let mut lines: Vec<Vec<String>> = vec![
        schema
            .fields()
            .iter()
            .map(|field| clean(field.name()).into_owned())
            .collect(),
    ];
    for batch in batches {
        let columns: Result<Vec<_>, _> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect();
        let columns = columns.map_err(io::Error::other)?;
        lines.extend((0..batch.num_rows()).map(|row| {
            let cells = columns.iter().zip(batch.columns());
            let cells = cells.map(|(column, values)| {
                let cell = column.value(row).to_string();
                let cell = clean(&cell);
                // A signed number is not a formula.
                match form == Rows::Csv && !values.data_type().is_numeric() {
                    true => without_formula(&cell).into_owned(),
                    false => cell.into_owned(),
                }
            });
            cells.collect()
        }));
    }
    match form {
        Rows::Csv => {
            let mut to = csv::Writer::from_writer(out);
            for line in &lines {
                to.write_record(line)?;
            }
            to.flush()
        }
        Rows::Table => {
            let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
            let widths: Vec<usize> = (0..schema.fields().len()).filter_map(width).collect();
            lines.iter().try_for_each(|line| {
                let cells = line
                    .iter()
                    .zip(&widths)
                    .map(|(cell, width)| format!("{cell:<width$}"));
                writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
            })
        }
    }
}
