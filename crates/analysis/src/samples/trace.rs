//! What a recording tells of its tracepoints.

use std::borrow::Cow;

use rprof_perfdata::{Event, Feature, PerfData};
use rprof_records::EventKind;

use rprof_tracepoint::{EventFormat, Tracepoints};

/// Descriptions of a recording's tracepoints, by event.
#[derive(Debug)]
pub struct Trace<'a> {
    tracepoints: Tracepoints<'a>,
    formats: Vec<Option<EventFormat>>,
}

/// Names of a recording's events. A tracepoint that has none in the recording (in pipe
/// mode, or of simpleperf) is called as its description calls it: `sched:sched_switch`.
pub fn event_names(data: &PerfData) -> Vec<Cow<'_, str>> {
    let events = data.events().list();
    let is_nameless =
        |event: &Event| event.attr.kind == EventKind::TRACEPOINT && event.name == event.attr.name();
    let described = match events.iter().any(is_nameless) {
        true => (data.features().get(Feature::TRACING_DATA)).and_then(Tracepoints::parse),
        false => None,
    };
    let name = |event| {
        let tracepoints = described.as_ref().filter(|_| is_nameless(event))?;
        let format = tracepoints.format(event.attr.config)?;
        Some(format!("{}:{}", format.system, format.name))
    };
    (events.iter())
        .map(|event| name(event).map_or(Cow::Borrowed(&*event.name), Cow::Owned))
        .collect()
}

impl<'a> Trace<'a> {
    /// Those of the recording's TRACING_DATA section; `None` without one.
    pub fn of(data: &'a PerfData) -> Option<Trace<'a>> {
        let tracepoints = Tracepoints::parse(data.features().get(Feature::TRACING_DATA)?)?;
        let formats = (data.events().list().iter())
            .map(|event| match event.attr.kind {
                EventKind::TRACEPOINT => tracepoints.format(event.attr.config),
                _ => None,
            })
            .collect();
        Some(Trace {
            tracepoints,
            formats,
        })
    }

    /// All that is described, of events that were not recorded too.
    pub fn tracepoints(&self) -> &Tracepoints<'a> {
        &self.tracepoints
    }

    /// The description of an event, by the order of the file.
    pub fn format(&self, event: usize) -> Option<&EventFormat> {
        self.formats.get(event)?.as_ref()
    }

    /// Whether any payload holds functions of the kernel that are printed by name.
    pub(crate) fn has_functions(&self) -> bool {
        self.formats
            .iter()
            .flatten()
            .any(EventFormat::has_functions)
    }
}
