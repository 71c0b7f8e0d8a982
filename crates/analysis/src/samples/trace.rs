//! Descriptions of a recording's tracepoints.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rprof_perfdata::features::tracing_data::TracingData;
use rprof_perfdata::{PerfData, RecordedEvent};
use rprof_records::EventKind;
use rprof_tracepoint::{EventFormat, Tracepoints};

/// Descriptions of a recording's tracepoints, by event.
#[derive(Debug)]
pub struct Trace<'a> {
    tracepoints: Tracepoints<'a>,
    kernel_strings: BTreeMap<u64, String>,
    formats: Vec<Option<EventFormat>>,
}

/// Returns the names of a recording's events. An unnamed tracepoint (pipe mode, simpleperf) is
/// named by its description, such as `sched:sched_switch`.
pub fn event_names(data: &PerfData) -> Vec<Cow<'_, str>> {
    let events = data.events().list();
    let is_nameless = |event: &RecordedEvent| {
        event.attr.kind == EventKind::TRACEPOINT && event.name == event.attr.name()
    };
    let described = match events.iter().any(is_nameless) {
        true => data.features().tracing_data(),
        false => None,
    };
    let described = described.as_ref().map(catalog);
    let name = |event| {
        let tracepoints = described.as_ref().filter(|_| is_nameless(event))?;
        let format = tracepoints.format(event.attr.config)?;
        Some(format!("{}:{}", format.system, format.name))
    };
    (events.iter())
        .map(|event| name(event).map_or(Cow::Borrowed(&*event.name), Cow::Owned))
        .collect()
}

fn catalog<'a>(described: &TracingData<'a>) -> Tracepoints<'a> {
    let mut tracepoints = Tracepoints::new(described.endian, described.long_size);
    for (system, text) in &described.formats {
        tracepoints.add(system, text);
    }
    tracepoints
}

impl<'a> Trace<'a> {
    /// Reads the recording's TRACING_DATA section; returns `None` without one.
    pub fn of(data: &'a PerfData) -> Option<Trace<'a>> {
        let described = data.features().tracing_data()?;
        let tracepoints = catalog(&described);
        let formats = (data.events().list().iter())
            .map(|event| match event.attr.kind {
                EventKind::TRACEPOINT => tracepoints.format(event.attr.config),
                _ => None,
            })
            .collect();
        Some(Trace {
            tracepoints,
            kernel_strings: described.kernel_strings,
            formats,
        })
    }

    /// Returns all descriptions, including unrecorded events.
    pub fn tracepoints(&self) -> &Tracepoints<'a> {
        &self.tracepoints
    }

    /// Returns the kernel's string constant at an address.
    pub fn kernel_string(&self, address: u64) -> Option<&str> {
        self.kernel_strings.get(&address).map(String::as_str)
    }

    /// Returns the description of an event, by its index in file order.
    pub fn format(&self, event: usize) -> Option<&EventFormat> {
        self.formats.get(event)?.as_ref()
    }

    pub(crate) fn has_functions(&self) -> bool {
        self.formats
            .iter()
            .flatten()
            .any(EventFormat::has_functions)
    }
}
