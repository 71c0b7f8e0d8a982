//! The result as text.

use std::fmt::Write;

use rprof_counting::{Count, Part};
use rprof_export::clean::clean;
use rprof_statistics::RunSummary;
use rprof_statistics::summary::outliers;

use super::compare::Comparison;
use super::figures::{figure, percent, time};
use super::job::Job;
use super::rows::{Row, Unit, Value, event_row, metrics_of, rows, value_of};
use super::run::Run;
use super::runs::{Measured, Side, command_text};

pub(super) fn one_side(job: &Job, measured: &Measured) -> String {
    let mut text = String::from("\n");
    for side in &measured.sides {
        match &side.runs[..] {
            [run] if job.per != rprof_counting::Per::All => parts(job, side, run, &mut text),
            [_] => one_run(side, &mut text),
            _ => many_runs(side, &mut text),
        }
    }
    text
}

fn title(side: &Side) -> String {
    match side.command.is_empty() {
        true => String::new(),
        false => format!(" {}", command_text(&side.command)),
    }
}

/// Width of the column of figures.
const WIDTH: usize = 18;

pub(super) fn line(text: &mut String, figure: &str, name: &str, remark: &str) {
    let line = format!("{figure:>WIDTH$}  {name:<28}  {remark}", name = clean(name));
    text.push_str(line.trim_end());
    text.push('\n');
}

pub(super) fn marked(figure: String, value: &Value) -> String {
    match value.is_exact {
        true => figure,
        false => format!("~{figure}"),
    }
}

pub(super) fn share(value: &Value) -> Option<String> {
    (!value.is_exact && value.share < 1.0).then(|| {
        format!(
            "counted for {} of the time, the rest is extrapolated",
            percent(value.share)
        )
    })
}

fn one_run(side: &Side, text: &mut String) {
    let rows = rows(side);
    writeln!(text, "rprof stat:{}\n", title(side)).ok();
    let cpu = cpu_seconds(&rows);
    let mut was_metric = false;
    for row in &rows {
        let is_metric = matches!(row.unit, Unit::Metric(_));
        if was_metric && !is_metric {
            text.push('\n');
        }
        was_metric = is_metric;
        let Some(Some(value)) = row.values.first() else {
            continue;
        };
        let rate = || rate(row, value.number, cpu);
        let remark = share(value).or_else(rate).unwrap_or_default();
        line(
            text,
            &marked(figure(value.number, &row.unit), value),
            &row.name,
            &remark,
        );
    }
}

fn rate(row: &Row, number: f64, cpu: Option<f64>) -> Option<String> {
    let a_second = number / cpu?;
    let (figure, unit) = match a_second {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " K"),
        n => (n, " "),
    };
    (row.unit == Unit::Count && number > 0.0).then(|| format!("{figure:.1}{unit}/s of CPU time"))
}

/// Returns the CPU time in seconds, preferably from `task-clock`, which is finer.
fn cpu_seconds(rows: &[Row]) -> Option<f64> {
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.name == name)?;
        Some((*row.values.first()?)?.number / 1e9)
    };
    of("task-clock")
        .or_else(|| of(super::rows::CPU))
        .filter(|seconds| *seconds > 0.0)
}

fn many_runs(side: &Side, text: &mut String) {
    writeln!(
        text,
        "rprof stat:{}\n{} runs\n",
        title(side),
        side.runs.len()
    )
    .ok();
    let mut table = Table::new([
        "",
        "mean",
        "std. error",
        "median",
        "std. dev.",
        "min",
        "max",
        "",
    ]);
    for row in &rows(side) {
        let Some(numbers) = row.numbers() else {
            let counted = row.values.iter().flatten().count();
            table.row(
                &row.name,
                &[&format!("counted in {counted} of {} runs", side.runs.len())],
            );
            continue;
        };
        let Some(summary) = RunSummary::of(&numbers) else {
            continue;
        };
        let of = |number: f64| figure(number, &row.unit);
        let spread = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), of);
        let error = match summary.relative_error() {
            Some(error) => format!("± {}", percent(error)),
            None => "–".to_owned(),
        };
        let mean = match row.lowest_share() {
            Some(_) => format!("~{}", of(summary.mean)),
            None => of(summary.mean),
        };
        let remark = match (row.lowest_share(), outliers(&numbers).len()) {
            (Some(share), _) if share < 1.0 => {
                format!(
                    "counted for {} of the time, the rest is extrapolated",
                    percent(share)
                )
            }
            (_, 0) => String::new(),
            (_, 1) => "1 run is an outlier".to_owned(),
            (_, n) => format!("{n} runs are outliers"),
        };
        let cells = [
            mean,
            error,
            of(summary.median),
            spread(summary.standard_deviation),
            of(summary.min),
            of(summary.max),
            remark,
        ];
        table.row(&row.name, &cells.each_ref().map(String::as_str));
    }
    text.push_str(&table.text());
}

fn parts(job: &Job, side: &Side, run: &Run, text: &mut String) {
    writeln!(text, "rprof stat:{}\n", title(side)).ok();
    let table = run.counts.table(job.per);
    for part in table.parts() {
        writeln!(text, "{}", part_name(part)).ok();
        let counts: Vec<Option<Count>> = (0..side.events.len())
            .map(|event| table.count(part, event))
            .collect();
        for metric in metrics_of(&side.events, &counts, run.wall) {
            let value = figure(metric.value, &Unit::Metric(metric.unit));
            let mark = if metric.is_estimate { "~" } else { "" };
            line(text, &format!("{mark}{value}"), &metric.name, "");
        }
        for (event, count) in side.events.iter().zip(counts) {
            let Some(value) = value_of(event, count) else {
                continue;
            };
            let number = marked(figure(value.number, &event_row(event).unit), &value);
            line(
                text,
                &number,
                &event.name,
                &share(&value).unwrap_or_default(),
            );
        }
    }
    writeln!(text, "\n{:>WIDTH$}  wall", time(run.wall.as_nanos() as f64)).ok();
}

/// Returns the name of a part, such as `CPU 3`.
pub(super) fn part_name(part: Part) -> String {
    match part {
        Part::All => "all".to_owned(),
        Part::Rest => "before rprof saw the thread, and threads that it never saw".to_owned(),
        Part::Cpu(cpu) => format!("CPU {cpu}"),
        // The upper half is the die.
        Part::Core { socket, core } => match core >> 16 {
            0 => format!("socket {socket} core {core}"),
            die => format!("socket {socket} die {die} core {}", core & 0xffff),
        },
        Part::Socket(socket) => format!("socket {socket}"),
        Part::Node(node) => format!("node {node}"),
        Part::Thread { pid, tid } => named("thread", tid, pid),
        Part::Process(pid) => named("process", pid, pid),
    }
}

fn named(what: &str, tid: u32, pid: u32) -> String {
    let comm = rprof_launch::procfs::Procfs::default().comm(pid, tid);
    let comm = comm.map(|comm| clean(&String::from_utf8_lossy(&comm)).into_owned());
    format!("{what} {tid} {}", comm.unwrap_or_default())
        .trim_end()
        .to_owned()
}

pub(super) fn comparison(measured: &Measured, comparison: &Comparison) -> String {
    let mut text = String::from("\n");
    let [base, new] = &measured.sides[..] else {
        return text;
    };
    writeln!(
        text,
        "rprof stat: {} runs of each, in turns",
        base.runs.len()
    )
    .ok();
    writeln!(text, "  old{}\n  new{}\n", title(base), title(new)).ok();
    let mut table = Table::new(["", "old", "new", "new against old", "95 %", ""]);
    for line in &comparison.lines {
        let cells = [
            &line.base,
            &line.new,
            &line.change,
            &line.interval,
            &line.verdict,
        ];
        table.row(&line.name, &cells.map(String::as_str));
    }
    text.push_str(&table.text());
    for limit in &comparison.limits {
        writeln!(text, "{}", limit.text).ok();
    }
    text
}

/// Table: names on the left, numbers on the right, remarks last.
struct Table {
    rows: Vec<Vec<String>>,
    columns: usize,
}

impl Table {
    fn new<const N: usize>(head: [&str; N]) -> Table {
        Table {
            rows: vec![head.map(str::to_owned).to_vec()],
            columns: N,
        }
    }

    fn row(&mut self, name: &str, cells: &[&str]) {
        let mut row = vec![clean(name).into_owned()];
        row.extend(cells.iter().map(|cell| (*cell).to_owned()));
        self.rows.push(row);
    }

    fn text(&self) -> String {
        // Rows with only a remark do not widen the number columns.
        let full = || self.rows.iter().filter(|row| row.len() == self.columns);
        let width = |column: usize| {
            full()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                match column {
                    0 => write!(line, "{cell:<width$}").ok(),
                    last if last + 1 == self.columns => write!(line, "  {cell}").ok(),
                    _ => write!(line, "  {cell:>width$}").ok(),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
