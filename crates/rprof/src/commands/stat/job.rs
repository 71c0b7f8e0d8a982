//! [`Job`]: events and repetitions, from the arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rprof_counting::metrics::TOP_DOWN_EVENTS;
use rprof_counting::{Per, SessionOptions};
use rprof_events::Event;

use crate::cli::{Limit, PerArg, StatArgs, StatFormat, YesNo};
use crate::recording::event_list;
use crate::recording::two_commands::commands;
use crate::wording::messages::{Failure, say};

/// Default events. Kernel events come first, as every machine has them.
const DEFAULT_EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,\
     branch-misses,cache-references,cache-misses";

const COMPARED_RUNS: u32 = 10;

#[derive(Clone, Debug)]
pub(super) enum To {
    StandardError,
    StandardOutput,
    File(PathBuf),
    Append(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Times(u32),
    For(Duration),
}

pub(super) struct Job {
    pub(super) options: SessionOptions,
    /// None, one, or two to compare.
    pub(super) commands: Vec<Vec<OsString>>,
    pub(super) per: Per,
    pub(super) repeat: Repeat,
    pub(super) warmup: u32,
    pub(super) prepare: Option<String>,
    pub(super) counts_failures: bool,
    /// Multiplex events, and extrapolate their counts.
    pub(super) multiplex: bool,
    pub(super) delay: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) interval: Option<Duration>,
    pub(super) most_intervals: Option<u64>,
    pub(super) limits: Vec<Limit>,
    pub(super) strict: bool,
    pub(super) format: StatFormat,
    pub(super) separator: u8,
    pub(super) to: To,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
}

impl Job {
    pub(super) fn new(args: &StatArgs) -> Result<Job, Failure> {
        let commands = commands(&args.command, "stat")?;
        if commands.is_empty() && !args.target.is_given() {
            return Err(usage(
                "nothing to count: give a COMMAND (rprof stat -- COMMAND), a running process (-p \
                 PID, -t TID, -u USER, -G CGROUP), or the whole system (-a)",
            ));
        }
        let (counting, repeating, printing) = (&args.counting, &args.repeating, &args.printing);
        let is_compared = commands.len() == 2;
        let repeat = match (repeating.repeat, repeating.repeat_for) {
            (Some(times), _) => Repeat::Times(times),
            (None, Some(time)) => Repeat::For(time),
            (None, None) if is_compared => Repeat::Times(COMPARED_RUNS),
            (None, None) => Repeat::Times(1),
        };
        let job = Job {
            options: SessionOptions {
                explicit: !counting.event.is_empty(),
                target: args.target.target()?,
                cpus: args.target.cpu_list(),
                per: per(counting.per()),
                inherit: !counting.no_inherit,
                enabled_from_start: counting.delay.is_none(),
                exclude_kernel: counting.all_user,
                exclude_user: counting.all_kernel,
                ..SessionOptions::new(events(args)?)
            },
            per: per(counting.per()),
            repeat,
            warmup: repeating.warmup.unwrap_or(u32::from(is_compared)),
            prepare: repeating.prepare.clone(),
            counts_failures: repeating.ignore_failure,
            multiplex: counting.multiplex == YesNo::Yes,
            delay: counting.delay,
            timeout: counting.timeout,
            interval: counting.interval_print,
            most_intervals: counting.interval_count,
            limits: repeating.fail_above.clone(),
            strict: repeating.strict,
            format: match (printing.format, printing.field_separator) {
                (Some(format), _) => format,
                (None, Some(_)) => StatFormat::Csv,
                (None, None) => StatFormat::Text,
            },
            separator: printing.field_separator.unwrap_or(b','),
            to: StatArgs::to(args),
            quiet: printing.quiet,
            verbose: printing.verbose,
            commands,
        };
        job.check()?;
        if !job.quiet {
            let remarks = args.target.remarks().into_iter();
            remarks.for_each(|remark| say(remark.replace("recorded", "counted")));
        }
        Ok(job)
    }

    fn check(&self) -> Result<(), Failure> {
        let is_one = self.repeat == Repeat::Times(1);
        if self.commands.is_empty() && !is_one {
            return Err(usage("-r and --repeat-for need a COMMAND to repeat"));
        }
        if self.commands.len() == 2 && self.repeat == Repeat::Times(1) {
            return Err(usage(
                "one run of each command cannot show how much runs vary: use -r 2 or more, better \
                 10",
            ));
        }
        if self.commands.len() < 2 && !self.limits.is_empty() {
            return Err(usage(
                "--fail-above compares two commands: rprof stat --fail-above 5% -- OLD ::: NEW",
            ));
        }
        let is_split = self.per != Per::All || self.interval.is_some();
        if is_split && !is_one {
            return Err(usage(
                "--per and -I show one run: they cannot be combined with -r, --repeat-for or `:::`",
            ));
        }
        if !self.multiplex && (is_split || self.commands.is_empty()) {
            return Err(usage(
                "--multiplex=no runs a COMMAND once for each part of the events: it cannot be \
                 combined with --per, -I or a running target",
            ));
        }
        if self.is_endless_document() {
            return Err(usage(
                "-I with -o FILE writes the result at the end, which may never come: add --append, \
                 --interval-count, --timeout or a COMMAND, or write to a pipe (-o -)",
            ));
        }
        Ok(())
    }

    fn is_endless_document(&self) -> bool {
        let is_bounded =
            self.timeout.is_some() || self.most_intervals.is_some() || !self.commands.is_empty();
        self.interval.is_some() && matches!(self.to, To::File(_)) && !is_bounded
    }

    /// Returns true if the result goes to standard output, where the command must not print.
    pub(super) fn takes_stdout(&self) -> bool {
        matches!(self.to, To::StandardOutput)
    }
}

impl StatArgs {
    fn to(&self) -> To {
        let printing = &self.printing;
        let is_text = printing.field_separator.is_none()
            && matches!(printing.format, None | Some(StatFormat::Text));
        match &printing.output {
            Some(path) if path == Path::new("-") => To::StandardOutput,
            Some(path) if printing.append => To::Append(path.clone()),
            Some(path) => To::File(path.clone()),
            None if is_text => To::StandardError,
            None => To::StandardOutput,
        }
    }
}

pub(crate) fn default_events() -> Result<Vec<Event>, Failure> {
    event_list::parse(&[DEFAULT_EVENTS.to_owned()])
}

/// Returns the given events, the events of the given metrics, or the default.
fn events(args: &StatArgs) -> Result<Vec<Event>, Failure> {
    let counting = &args.counting;
    let mut list = match (counting.event.is_empty(), counting.metrics.is_empty()) {
        (true, true) => vec![DEFAULT_EVENTS.to_owned()],
        (true, false) => Vec::new(),
        (false, _) => counting.event.clone(),
    };
    let mut named: Vec<String> = match list.is_empty() {
        true => Vec::new(),
        false => (event_list::parse(&list)?.iter())
            .map(|event| event.name().to_owned())
            .collect(),
    };
    let metrics = counting.metrics.iter().map(|metric| metric.events);
    let of_top_down = counting.topdown.then_some(TOP_DOWN_EVENTS);
    for events in metrics.chain(of_top_down) {
        if events == TOP_DOWN_EVENTS {
            match Event::parse_list(events) {
                Ok(_) => list.push(events.to_owned()),
                Err(_) => say(
                    "top-down is not available: the PMU offers no top-down events (such as \
                     `topdown-retiring`), or hides them",
                ),
            }
            continue;
        }
        for event in events.split(',') {
            if !named.iter().any(|name| name == event) {
                named.push(event.to_owned());
                list.push(event.to_owned());
            }
        }
    }
    if list.is_empty() {
        return Err(Failure::with_status(
            1,
            anyhow::anyhow!("none of the requested events can be counted here"),
        ));
    }
    event_list::parse(&list)
}

fn per(per: Option<PerArg>) -> Per {
    match per {
        None => Per::All,
        Some(PerArg::Cpu) => Per::Cpu,
        Some(PerArg::Core) => Per::Core,
        Some(PerArg::Socket) => Per::Socket,
        Some(PerArg::Node) => Per::Node,
        Some(PerArg::Thread) => Per::Thread,
        Some(PerArg::Process) => Per::Process,
    }
}

fn usage(message: &'static str) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}
