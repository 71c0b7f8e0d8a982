//! Counts printed while the command runs.

use std::fmt::Write;

use super::csv;
use super::figures::figure;
use super::job::Job;
use super::json;
use super::rows::{event_row, value_of};
use super::run::Interval;
use super::text::{marked, part_name, share};
use crate::cli::StatFormat;
use crate::wording::messages::Failure;
use rprof_counting::Part;
use rprof_export::clean::clean;

pub(super) struct Intervals<'a> {
    job: &'a Job,
    is_first: bool,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(job: &'a Job) -> Intervals<'a> {
        Intervals {
            job,
            is_first: true,
        }
    }

    pub(super) fn text(&mut self, interval: &Interval<'_>) -> Result<String, Failure> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.job.format {
            StatFormat::Text => Ok(self.lines(interval, is_first)),
            StatFormat::Csv => csv::interval(self.job, interval, is_first),
            StatFormat::Json => json::interval(self.job, interval),
        }
    }

    fn lines(&self, interval: &Interval<'_>, is_first: bool) -> String {
        let mut text = String::new();
        if is_first {
            writeln!(text, "{:>12}  {:>18}  event", "time (s)", "count").ok();
        }
        let table = interval.counts.table(self.job.per);
        for part in table.parts() {
            let name = match part {
                Part::All => String::new(),
                part => format!("{:<16}  ", part_name(part)),
            };
            for (index, event) in interval.events.iter().enumerate() {
                let Some(value) = value_of(event, table.count(part, index)) else {
                    continue;
                };
                let line = format!(
                    "{:>12.6}  {name}{:>18}  {:<28}  {}",
                    interval.end.as_secs_f64(),
                    marked(figure(value.number, &event_row(event).unit), &value),
                    clean(&event.name),
                    share(&value).unwrap_or_default()
                );
                writeln!(text, "{}", line.trim_end()).ok();
            }
        }
        text
    }
}
