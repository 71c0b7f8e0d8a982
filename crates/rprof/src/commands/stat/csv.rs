//! The result as CSV.

use rprof_counting::session::CountedEvent;
use rprof_counting::{CountTable, Part};
use rprof_export::csv::without_formula;

use super::job::Job;
use super::rows::{Row, Unit, event_row, rows, value_of};
use super::run::Interval;
use super::runs::{Measured, command_text};
use super::text::part_name;
use crate::wording::messages::Failure;

/// Field names. With intervals, the first field is the interval's end in seconds.
const HEAD: [&str; 8] = [
    "time", "command", "run", "part", "name", "value", "unit", "share",
];

/// Returns a line for each value of each run.
pub(super) fn lines(job: &Job, measured: &Measured) -> Result<String, Failure> {
    let mut out = Lines::new(job.separator);
    out.line(HEAD)?;
    for (number, side) in measured.sides.iter().enumerate() {
        let command = match measured.sides.len() {
            1 => command_text(&side.command),
            _ => format!("{}: {}", number + 1, command_text(&side.command)),
        };
        for row in &rows(side) {
            for (run, value) in row.values.iter().enumerate() {
                let Some(value) = value else { continue };
                let run = (run + 1).to_string();
                let (number, unit) = plain(value.number, row);
                out.value(
                    ["", &command, &run, "all", &row.name],
                    &number,
                    &unit,
                    value.share,
                )?;
            }
        }
        if let ([run], true) = (&side.runs[..], job.per != rprof_counting::Per::All) {
            out.parts("", &command, &side.events, &run.counts.table(job.per))?;
        }
    }
    out.text()
}

/// Returns the lines of an interval, after the head for the first one.
pub(super) fn interval(
    job: &Job,
    interval: &Interval<'_>,
    is_first: bool,
) -> Result<String, Failure> {
    let mut out = Lines::new(job.separator);
    if is_first {
        out.line(HEAD)?;
    }
    let time = format!("{:.6}", interval.end.as_secs_f64());
    out.parts(&time, "", interval.events, &interval.counts.table(job.per))?;
    out.text()
}

/// Returns a number and its unit; times are in seconds.
fn plain(number: f64, row: &Row) -> (String, String) {
    match &row.unit {
        Unit::Time => (format!("{:.9}", number / 1e9), "s".to_owned()),
        Unit::Bytes => (number.to_string(), "B".to_owned()),
        Unit::Count => (number.to_string(), String::new()),
        Unit::Scaled(factor, unit) => ((number * factor).to_string(), unit.clone()),
        Unit::Metric(_) => (format!("{number:.6}"), String::new()),
    }
}

struct Lines {
    csv: ::csv::Writer<Vec<u8>>,
}

impl Lines {
    fn new(separator: u8) -> Lines {
        let mut builder = ::csv::WriterBuilder::new();
        Lines {
            csv: builder.delimiter(separator).from_writer(Vec::new()),
        }
    }

    fn line<const N: usize>(&mut self, fields: [&str; N]) -> Result<(), Failure> {
        let fields = fields.map(|field| without_formula(field).into_owned());
        Ok(self.csv.write_record(fields)?)
    }

    fn value(
        &mut self,
        of: [&str; 5],
        number: &str,
        unit: &str,
        share: f64,
    ) -> Result<(), Failure> {
        let [time, command, run, part, name] = of;
        self.line([
            time,
            command,
            run,
            part,
            name,
            number,
            unit,
            &format!("{share:.4}"),
        ])
    }

    /// Writes the counts of each part. Skips uncounted events.
    fn parts(
        &mut self,
        time: &str,
        command: &str,
        events: &[CountedEvent],
        table: &CountTable,
    ) -> Result<(), Failure> {
        let parts: Vec<Part> = table.parts().collect();
        for part in parts {
            for (index, event) in events.iter().enumerate() {
                let Some(value) = value_of(event, table.count(part, index)) else {
                    continue;
                };
                let (number, unit) = plain(value.number, &event_row(event));
                self.value(
                    [time, command, "1", &part_name(part), &event.name],
                    &number,
                    &unit,
                    value.share,
                )?;
            }
        }
        Ok(())
    }

    fn text(self) -> Result<String, Failure> {
        let bytes = self
            .csv
            .into_inner()
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
