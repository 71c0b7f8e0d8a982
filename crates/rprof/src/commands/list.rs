//! `rprof list`.

use std::io::Write;

use rprof_events::glob;
use rprof_events::list::{Availability, Catalog, ListKind, Listed, TrialScope};
use rprof_events::tracefs::TracefsError;
use rprof_export::clean::clean;
use rprof_perf_event::{Errno, ErrnoText, PerfFd};
use rprof_records::Attr;
use serde::Serialize;

use crate::Outcome;
use crate::cli::{HeaderFormat, ListArgs};
use crate::terminal::pager::show;
use crate::wording::messages::{Failure, say};

struct Filter {
    kinds: Vec<ListKind>,
    names: Vec<String>,
    available: bool,
}

impl Filter {
    fn new(args: &ListArgs) -> Filter {
        let mut filter = Filter {
            kinds: Vec::new(),
            names: Vec::new(),
            available: args.available,
        };
        for word in &args.words {
            match ListKind::named(word) {
                Some(kind) => filter.kinds.push(kind),
                None => filter.names.push(word.to_lowercase()),
            }
        }
        if filter.kinds.is_empty() {
            filter.kinds = ListKind::ALL.to_vec();
        }
        filter
    }

    fn admits(&self, listed: &Listed) -> bool {
        let named = |word: &String| {
            let mut names = listed.aliases.iter().chain([&listed.name]);
            names.any(|name| {
                let name = name.to_lowercase();
                name.contains(word.as_str()) || glob::matches(word, &name)
            })
        };
        let by_name = self.names.is_empty() || self.names.iter().any(named);
        let works = !self.available || listed.availability == Availability::Sampled;
        by_name && works
    }
}

pub(crate) fn run(args: &ListArgs) -> Outcome {
    let filter = Filter::new(args);
    let mut catalog = Catalog::read(&filter.kinds, &try_open);
    catalog.events.retain(|listed| filter.admits(listed));
    if catalog.events.is_empty() {
        return Err(nothing(&filter, catalog.no_tracepoints.as_ref()));
    }
    show(|out| {
        match args.format {
            HeaderFormat::Json => json(out, &catalog)?,
            HeaderFormat::Text => text(out, &catalog.events)?,
        }
        Ok(())
    })?;
    if let (Some(why), HeaderFormat::Text) = (&catalog.no_tracepoints, args.format) {
        say(why);
    }
    Ok(0)
}

fn try_open(attr: &Attr, scope: TrialScope) -> Result<(), Errno> {
    let (pid, cpu) = match scope {
        TrialScope::OwnThread => (0, None),
        TrialScope::Cpu(cpu) => (-1, Some(cpu)),
    };
    PerfFd::open(attr, pid, cpu).map(drop)
}

/// Returns the availability of an event, with a remedy if there is one.
fn reason(availability: Availability) -> String {
    match availability {
        Availability::Denied => format!("{availability}; see `rprof doctor`"),
        Availability::Refused(errno) => format!("refused: {}", ErrnoText(errno)),
        other => other.to_string(),
    }
}

fn nothing(filter: &Filter, no_tracepoints: Option<&TracefsError>) -> Failure {
    let mut message = match filter.names.as_slice() {
        [] => "no event matches; `rprof list` shows all".to_owned(),
        names => format!(
            "no event or kind matches `{}`; `rprof list` shows all",
            names.join("` or `")
        ),
    };
    if let Some(why) = no_tracepoints {
        message = format!("{message}; {why}");
    }
    anyhow::anyhow!(message).into()
}

fn text(out: &mut dyn Write, events: &[Listed]) -> std::io::Result<()> {
    writeln!(out, "{:<11} {:<7} {:<38} NOTE", "KIND", "HERE", "EVENT")?;
    for listed in events {
        let line = format!(
            "{:<11} {:<7} {:<38} {}",
            listed.kind.name(),
            listed.availability.word(),
            clean(&listed.name),
            clean(&note(listed))
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn note(listed: &Listed) -> String {
    let mut parts = Vec::new();
    if !listed.aliases.is_empty() {
        parts.push(format!("also {}", listed.aliases.join(", ")));
    }
    if !listed.detail.is_empty() {
        parts.push(listed.detail.clone());
    }
    if let Availability::Refused(errno) = listed.availability {
        parts.push(ErrnoText(errno).to_string());
    }
    parts.join("; ")
}

#[derive(Serialize)]
struct Json<'a> {
    version: u32,
    events: Vec<JsonEvent<'a>>,
    /// Reason why tracepoints are missing.
    no_tracepoints: Option<String>,
}

#[derive(Serialize)]
struct JsonEvent<'a> {
    kind: &'static str,
    name: &'a str,
    aliases: &'a [String],
    detail: &'a str,
    here: &'static str,
    reason: String,
}

fn json(out: &mut dyn Write, catalog: &Catalog) -> anyhow::Result<()> {
    let events = catalog.events.iter().map(|listed| JsonEvent {
        kind: listed.kind.name(),
        name: &listed.name,
        aliases: &listed.aliases,
        detail: &listed.detail,
        here: listed.availability.word(),
        reason: reason(listed.availability),
    });
    let json = Json {
        version: 1,
        events: events.collect(),
        no_tracepoints: catalog.no_tracepoints.as_ref().map(ToString::to_string),
    };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)?;
    Ok(())
}
