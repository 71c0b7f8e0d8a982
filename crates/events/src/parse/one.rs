//! One event: name, terms, modifiers.

use super::letters::set_letters;
use super::terms::{self, TermValues};
use crate::error::EventError;
use crate::event::{Event, EventDetail};
use crate::glob::is_pattern;
use crate::modifiers::Letters;
use crate::pmu::{CONFIG_WORDS, Pmu};
use crate::settings::number;
use crate::sources::Sources;
use crate::trace_unit::TraceUnit;
use crate::tracefs::{Tracefs, TracefsError};
use crate::{breakpoint, generic, probe, suggest};
use rprof_records::EventKind;

/// Parses one part of a list, perhaps several events.
pub(super) fn parse(text: &str, sources: &Sources<'_>) -> Result<Vec<Event>, EventError> {
    if probe::is_probe(text) {
        let (place, letters) = probe_letters(text);
        let event = probe::parse(place, sources)?;
        return with_letters(vec![event], letters, text);
    }
    if let Some(place) = text.strip_prefix("mem:") {
        let (event, letters) = breakpoint::parse(text, place)?;
        return with_letters(vec![event], letters, text);
    }
    let Some((head, rest)) = text.split_once('/') else {
        return plain(text, sources);
    };
    // The list was split at the second slash.
    let (terms, letters) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let letters = match letters.strip_prefix(':').unwrap_or(letters) {
        "" => None,
        letters => Some(letters),
    };
    let events = match head.split_once(':') {
        Some((system, name)) => {
            let events = numeric(text, system, name, sources)
                .map_or_else(|| tracepoints(text, system, name, sources), Ok)?;
            let of = format!("the event `{head}`");
            applied(events, &terms::of_event(&of, terms)?, terms)
        }
        None => match named(head, sources) {
            Some(events) => {
                let of = format!("the event `{head}`");
                applied(events, &terms::of_event(&of, terms)?, terms)
            }
            None => of_pmus(head, terms, sources)?,
        },
    };
    with_letters(events, letters, text)
}

fn plain(text: &str, sources: &Sources<'_>) -> Result<Vec<Event>, EventError> {
    let mut words = text.splitn(3, ':').map(str::trim);
    let (first, second, third) = (words.next().unwrap_or(""), words.next(), words.next());
    if let Some(events) = named(first, sources).filter(|_| third.is_none()) {
        return with_letters(events, second, text);
    }
    if generic::is_counted_by_the_tool(first) {
        return Err(EventError::CountedOnly {
            name: first.to_owned(),
        });
    }
    let Some(second) = second else {
        return Err(unknown(first, sources));
    };
    if let Some(events) = numeric(text, first, second, sources) {
        return with_letters(events, third, text);
    }
    // `cylces:u` is a misspelt name with letters.
    if third.is_none() && Letters::parse(second).is_ok() {
        let is_system = sources
            .tracefs()
            .is_ok_and(|t| !t.select(first, "*").is_empty());
        if !is_system {
            return Err(unknown(first, sources));
        }
    }
    with_letters(tracepoints(text, first, second, sources)?, third, text)
}

/// Finds events by name: generic, raw, or a PMU's.
fn named(name: &str, sources: &Sources<'_>) -> Option<Vec<Event>> {
    if let Some(known) = generic::find(name) {
        let event = Event::numbered(&known.name, known.kind, known.config);
        return Some(on_each_kind_of_core(event, sources));
    }
    // Such names cannot be file names.
    if name.is_empty() || is_pattern(name) {
        return None;
    }
    let pmus = Pmu::all(&sources.pmus).into_iter();
    let having = pmus.filter(|pmu| pmu.event(name).is_some());
    let events: Vec<Event> = having.filter_map(|pmu| of_pmu(&pmu, name).ok()).collect();
    (!events.is_empty()).then_some(events)
}

/// Splits a hardware event into one for each core type (`cpu_core`, `cpu_atom`). The upper half of
/// the config holds the number of the core type's PMU.
fn on_each_kind_of_core(event: Event, sources: &Sources<'_>) -> Vec<Event> {
    let hardware = [EventKind::HARDWARE, EventKind::HW_CACHE, EventKind::RAW];
    if !hardware.contains(&event.kind) {
        return vec![event];
    }
    let pmus = Pmu::all(&sources.pmus).into_iter();
    let kinds: Vec<(Pmu, Vec<u32>)> = pmus
        .filter(|pmu| pmu.name().starts_with("cpu_"))
        .filter_map(|pmu| Some((pmu.clone(), pmu.cpus()?)))
        .collect();
    if kinds.is_empty() {
        return vec![event];
    }
    let of_kind = kinds.into_iter().map(|(pmu, cpus)| {
        let mut event = event.clone();
        event.name = format!("{}/{}/", pmu.name(), event.name);
        match event.kind {
            EventKind::RAW => event.kind = pmu.kind(),
            _ => event.config[0] |= u64::from(pmu.kind().0) << 32,
        }
        event.cpus = Some(cpus);
        event
    });
    of_kind.collect()
}

fn of_pmus(name: &str, terms: &str, sources: &Sources<'_>) -> Result<Vec<Event>, EventError> {
    if let Some(pmu) = Pmu::open(&sources.pmus, name) {
        return Ok(vec![of_pmu(&pmu, terms)?]);
    }
    let all = Pmu::all(&sources.pmus);
    let meant: Vec<&Pmu> = match name.is_empty() {
        true => Vec::new(),
        false => all.iter().filter(|pmu| pmu.is_meant_by(name)).collect(),
    };
    if let (true, Some(unit)) = (meant.is_empty(), TraceUnit::of_pmu(name)) {
        return Err(EventError::NoTraceUnit {
            name: name.to_owned(),
            unit,
        });
    }
    if meant.is_empty() {
        let pmus: Vec<String> = all.iter().map(|pmu| pmu.name().to_owned()).collect();
        let generic = generic::all();
        return Err(EventError::UnknownPmu {
            near: suggest::names_near(name, pmus.iter().cloned().chain(generic).collect()),
            name: name.to_owned(),
            pmus,
        });
    }
    meant.into_iter().map(|pmu| of_pmu(pmu, terms)).collect()
}

fn of_pmu(pmu: &Pmu, terms: &str) -> Result<Event, EventError> {
    let values = terms::of_pmu(pmu, terms)?;
    let mut event = Event::numbered(&format!("{}/{terms}/", pmu.name()), pmu.kind(), 0);
    event.config = values.config;
    event.settings = values.settings;
    if let Some(unit) = TraceUnit::of_pmu(pmu.name()) {
        event.detail = EventDetail::Trace(unit);
        if event.config == [0; CONFIG_WORDS] {
            event.config[0] = unit.default_config(pmu);
        }
    }
    event.cpus = pmu.cpus();
    // As in perf, the first term that names a scaled event determines the scale.
    event.scale = terms::named_events(pmu, terms).find_map(|name| pmu.scale(name));
    event.is_level = terms::named_events(pmu, terms).any(|name| pmu.is_level(name));
    Ok(event)
}

fn numeric(text: &str, kind: &str, config: &str, sources: &Sources<'_>) -> Option<Vec<Event>> {
    let kind = EventKind(u32::try_from(number(kind)?).ok()?);
    let config = number(config)?;
    let mut event = Event::numbered(text.split('/').next().unwrap_or(text), kind, config);
    if kind == EventKind::TRACEPOINT {
        let found = sources.tracefs().ok().and_then(|t| t.by_id(config));
        if let Some((system, name)) = found {
            event.name = format!("{system}:{name}");
            event.detail = EventDetail::Tracepoint { system, name };
        }
    }
    Some(vec![event])
}

fn tracepoints(
    text: &str,
    system: &str,
    name: &str,
    sources: &Sources<'_>,
) -> Result<Vec<Event>, EventError> {
    let (system, name) = (system.trim(), name.trim());
    let failed = |source: TracefsError| EventError::Tracefs {
        event: text.to_owned(),
        source,
    };
    let tracefs = sources.tracefs().map_err(failed)?;
    let candidates = match is_pattern(system) || is_pattern(name) {
        true => tracefs.select(system, name),
        false => vec![(system.to_owned(), name.to_owned())],
    };
    let mut events = Vec::new();
    for (system, name) in candidates {
        // ftrace's own events have no number, and cannot be opened.
        if let Some(id) = tracefs.id(&system, &name).map_err(failed)? {
            let mut event = Event::numbered(&format!("{system}:{name}"), EventKind::TRACEPOINT, id);
            event.detail = EventDetail::Tracepoint { system, name };
            events.push(event);
        }
    }
    match events.is_empty() {
        false => Ok(events),
        true => Err(EventError::UnknownTracepoint {
            name: format!("{system}:{name}"),
            near: similar_tracepoints(system, name, &tracefs),
        }),
    }
}

fn similar_tracepoints(system: &str, name: &str, tracefs: &Tracefs) -> Vec<String> {
    let known = tracefs.events(system);
    let full = |system: &str, names: Vec<String>| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{system}:{name}"))
            .collect()
    };
    if !known.is_empty() {
        let mut similar = suggest::names_near(name, known);
        similar.retain(|name| matches!(tracefs.id(system, name), Ok(Some(_))));
        return full(system, similar);
    }
    let systems = tracefs.systems();
    let mut found: Vec<String> = (systems.iter())
        .filter(|s| tracefs.events(s).iter().any(|n| n == name))
        .map(|s| format!("{s}:{name}"))
        .collect();
    let similar = suggest::names_near(system, systems);
    found.extend(similar.iter().map(|s| format!("{s}:*")));
    found.truncate(4);
    found
}

/// Splits off the modifiers of a probe. In `uprobe:/bin/x:hub`, `hub` is a function.
fn probe_letters(text: &str) -> (&str, Option<&str>) {
    let split = text.rsplit_once(':').filter(|(place, letters)| {
        let complete = match place
            .strip_prefix("uprobe:")
            .or(place.strip_prefix("uretprobe:"))
        {
            Some(rest) => rest.contains(':'),
            None => place.contains(':'),
        };
        complete && !place.ends_with(':') && Letters::parse(letters).is_ok()
    });
    match split {
        Some((place, letters)) => (place, Some(letters)),
        None => (text, None),
    }
}

fn applied(mut events: Vec<Event>, values: &TermValues, terms: &str) -> Vec<Event> {
    for event in &mut events {
        for (word, given) in event.config.iter_mut().zip(values.config) {
            if given != 0 {
                *word = given;
            }
        }
        event.settings = values.settings.clone();
        if !terms.is_empty() {
            event.name = match event.name.strip_suffix('/') {
                Some(name) => format!("{name},{terms}/"),
                None => format!("{}/{terms}/", event.name),
            };
        }
    }
    events
}

fn with_letters(
    mut events: Vec<Event>,
    letters: Option<&str>,
    text: &str,
) -> Result<Vec<Event>, EventError> {
    if let Some(letters) = letters {
        set_letters(&mut events, letters, text)?;
    }
    Ok(events)
}

fn unknown(name: &str, sources: &Sources<'_>) -> EventError {
    let of_pmus = Pmu::all(&sources.pmus).into_iter().flat_map(|p| p.events());
    let all: Vec<String> = generic::all().into_iter().chain(of_pmus).collect();
    EventError::Unknown {
        name: name.to_owned(),
        near: suggest::names_near(name, all),
    }
}
