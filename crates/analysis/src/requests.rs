//! [`RequestTimes`]: which request each sample belongs to, as OpenTelemetry's thread context tells.
//!
//! ```text
//!   records of `otel-context` --> by thread: time, instruction pointer, context
//!                                                    |
//!   sample: thread, time, instruction pointer -------+--> context --> wanted by the filter? name
//! ```
//!
//! Contexts and samples are neighbours: see [`request_context`].

use std::collections::BTreeSet;

use rprof_perfdata::Walk;
use rprof_profile::intern::Values;
use rprof_profile::waits::is_of_waits;
use rprof_profile::{Filter, NO_REQUEST, RequestIds, RequestKey};
use rprof_records::request_context::{self, RequestContext, attribute_keys, attributes};
use rprof_records::{RawRecord, RecordType, Sample};
use rustc_hash::FxHashMap;

use crate::sideband_pass::Index;

/// Maximum number of contexts. Further samples have no request.
const MAX_CONTEXTS: usize = 4 << 20;

/// Maximum number of keys of a process.
const MAX_KEYS: usize = 256;

/// Maximum number of attributes in a warning.
const MAX_SHOWN_KEYS: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct RequestTimes {
    /// Sorted by time.
    by_thread: FxHashMap<i32, Vec<Moment>>,
    /// Contexts that the filter accepts.
    wanted: Vec<bool>,
    /// Index in `names`, by context.
    name_of: Vec<u32>,
    /// Names; the first is [`NO_REQUEST`].
    names: Vec<RequestName>,
    filters: bool,
    /// Reason why no sample has the key.
    warning: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    time: u64,
    ip: u64,
    context: u32,
    /// Start of a wait; else the time.
    from: u64,
}

/// Name of a request, with ids if they separate threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestName {
    pub(crate) name: String,
    pub(crate) ids: Option<RequestIds>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Context {
    process: (i32, u64),
    /// `None` without an active trace.
    ids: Option<RequestIds>,
    attributes: Box<[u8]>,
}

impl RequestTimes {
    /// Reads the contexts of a recording. `None` if neither the filter nor the key needs them.
    pub(crate) fn of(
        index: &Index<'_>,
        filter: &Filter,
        (key, has_ids): (Option<&RequestKey>, bool),
    ) -> Option<RequestTimes> {
        let filters = !filter.traces.is_empty() || filter.slower_than.is_some();
        if !filters && key.is_none() && !has_ids {
            return None;
        }
        let mut reader = Reader {
            index,
            contexts: Values::default(),
            keys: FxHashMap::default(),
            by_cpu: FxHashMap::default(),
            switches: FxHashMap::default(),
            behind: Vec::new(),
            before: Vec::new(),
            waits: Vec::new(),
        };
        index.for_each_block(|walk| reader.handle_block(walk));
        Some(reader.finish(filter, filters, (key, has_ids)))
    }

    /// Returns the index of a sample's request in [`names`](Self::names). `None` if the filter
    /// rejects the sample.
    #[inline]
    pub(crate) fn of_sample(&self, tid: i32, time: Option<u64>, ip: Option<u64>) -> Option<u32> {
        let found = time.zip(ip).and_then(|(time, ip)| {
            let moments = self.by_thread.get(&tid)?;
            let first = moments.partition_point(|moment| moment.time < time);
            let mut equal = moments.get(first..)?.iter();
            let mut equal = equal.by_ref().take_while(|moment| moment.time == time);
            Some(equal.find(|moment| moment.ip == ip)?.context as usize)
        });
        match found {
            Some(context) if *self.wanted.get(context)? => self.name_of.get(context).copied(),
            Some(_) => None,
            None => (!self.filters).then_some(0),
        }
    }

    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    pub(crate) fn names(&self) -> &[RequestName] {
        &self.names
    }
}

/// Maximum number of a thread's switches without the end of their wait.
const MAX_SWITCHES: usize = 8;

/// Maximum nanoseconds between a switch and its wait. The machine may stand still in between.
const MAX_DISTANCE: u64 = 2_000_000;

struct Reader<'i> {
    index: &'i Index<'i>,
    contexts: Values<Context>,
    /// Attribute names by process and generation.
    keys: FxHashMap<(i32, u64), Vec<String>>,
    by_cpu: FxHashMap<u32, Neighbours>,
    switches: FxHashMap<i32, Vec<Moment>>,
    /// Samples followed by their context, and the reverse. A kernel writes either.
    behind: Vec<(i32, Moment)>,
    before: Vec<(i32, Moment)>,
    waits: Vec<(i32, Moment)>,
}

/// Records of a CPU without a partner yet.
#[derive(Debug, Default)]
struct Neighbours {
    sample: Option<(i32, Moment)>,
    context: Option<(i32, Moment)>,
}

impl Reader<'_> {
    fn handle_block(&mut self, walk: Walk<'_>) {
        for walked in walk {
            match walked.record.kind {
                RecordType::SAMPLE => drop(self.handle_sample(&walked.record)),
                // One of two neighbours may be missing.
                RecordType::LOST => self.by_cpu.clear(),
                _ => {}
            }
        }
    }

    fn handle_sample(&mut self, raw: &RawRecord<'_>) -> Option<()> {
        let events = self.index.data.events();
        let described = &events.list()[events.of_sample(raw)?];
        let sample = Sample::parse(raw.body, &described.layout).ok()?;
        let (pid, tid, time) = (sample.pid()?, sample.tid()?, sample.time()?);
        let cpu = sample.cpu()?;
        if described.name != request_context::EVENT {
            let mut moment = Moment {
                time,
                ip: sample.ip()?,
                context: 0,
                from: time,
            };
            if is_of_waits(&described.name) {
                moment.from = time.saturating_sub(sample.period().unwrap_or(0));
                self.handle_wait(tid, moment);
            } else {
                self.handle_sampled(cpu, tid, moment);
            }
            return Some(());
        }
        let payload = sample.raw()?;
        let payload = payload.to_cow();
        match RequestContext::parse(&payload, described.layout.endian())? {
            RequestContext::Thread {
                generation,
                ip,
                trace,
                span,
                attributes,
            } => {
                if self.contexts.as_slice().len() >= MAX_CONTEXTS {
                    return None;
                }
                let has_ids = trace != [0; 16] && span != [0; 8];
                let context = self.contexts.intern(Context {
                    process: (pid, generation),
                    ids: has_ids.then_some(RequestIds { trace, span }),
                    attributes: attributes.into(),
                });
                let moment = Moment {
                    time,
                    ip,
                    context,
                    from: time,
                };
                self.handle_context(cpu, tid, moment);
            }
            RequestContext::Process {
                generation,
                resource,
            } => {
                let mut keys = attribute_keys(resource);
                keys.truncate(MAX_KEYS);
                self.keys.insert((pid, generation), keys);
            }
        }
        Some(())
    }

    fn handle_sampled(&mut self, cpu: u32, tid: i32, sample: Moment) {
        let neighbours = self.by_cpu.entry(cpu).or_default();
        if let Some((of, context)) = neighbours.context.take()
            && (of, context.ip) == (tid, sample.ip)
        {
            let context = context.context;
            self.before.push((tid, Moment { context, ..sample }));
        }
        neighbours.sample = Some((tid, sample));
    }

    fn handle_context(&mut self, cpu: u32, tid: i32, context: Moment) {
        let neighbours = self.by_cpu.entry(cpu).or_default();
        neighbours.context = Some((tid, context));
        if let Some((of, sample)) = neighbours.sample.take()
            && (of, sample.ip) == (tid, context.ip)
        {
            let context = context.context;
            self.behind.push((tid, Moment { context, ..sample }));
        }
        let switches = self.switches.entry(tid).or_default();
        if switches.len() == MAX_SWITCHES {
            switches.remove(0);
        }
        switches.push(context);
    }

    fn handle_wait(&mut self, tid: i32, wait: Moment) {
        let Some(switches) = self.switches.get_mut(&tid) else {
            return;
        };
        let is_its = |switch: &&Moment| {
            switch.ip == wait.ip && switch.time.abs_diff(wait.from) <= MAX_DISTANCE
        };
        if let Some(switch) = switches.iter().rev().find(is_its) {
            let context = switch.context;
            self.waits.push((tid, Moment { context, ..wait }));
        }
        switches.clear();
    }

    fn finish(
        mut self,
        filter: &Filter,
        filters: bool,
        (key, has_ids): (Option<&RequestKey>, bool),
    ) -> RequestTimes {
        let mut by_thread: FxHashMap<i32, Vec<Moment>> = FxHashMap::default();
        let sampled = match self.behind.len() >= self.before.len() {
            true => std::mem::take(&mut self.behind),
            false => std::mem::take(&mut self.before),
        };
        for (tid, moment) in sampled.into_iter().chain(std::mem::take(&mut self.waits)) {
            by_thread.entry(tid).or_default().push(moment);
        }
        for moments in by_thread.values_mut() {
            moments.sort_by_key(|moment| moment.time);
        }
        let contexts = self.contexts.as_slice();
        let mut names: Values<RequestName> = Values::default();
        names.intern(RequestName {
            name: NO_REQUEST.to_owned(),
            ids: None,
        });
        let name_of = |context: &Context| {
            let keys = self
                .keys
                .get(&context.process)
                .map_or(&[][..], Vec::as_slice);
            let name = key.and_then(|key| context.name(key, keys));
            RequestName {
                name: name.unwrap_or_else(|| NO_REQUEST.to_owned()),
                ids: context.ids.filter(|_| has_ids),
            }
        };
        let name_of: Vec<u32> = (contexts.iter())
            .map(|context| names.intern(name_of(context)))
            .collect();
        let warning = self.warning(key, &name_of);
        let lengths = match filter.slower_than {
            Some(_) => self.lengths(&by_thread),
            None => FxHashMap::default(),
        };
        let is_wanted = |context: &Context| {
            let is_of_trace = filter.traces.is_empty()
                || (context.ids).is_some_and(|ids| filter.traces.contains(&ids.trace_hex()));
            let is_slow = filter.slower_than.is_none_or(|least| {
                let length = context.ids.and_then(|ids| lengths.get(&ids));
                length.is_some_and(|(first, last)| last - first > least)
            });
            is_of_trace && is_slow
        };
        RequestTimes {
            wanted: contexts.iter().map(is_wanted).collect(),
            by_thread,
            name_of,
            names: names.into_vec(),
            filters,
            warning,
        }
    }

    fn warning(&self, key: Option<&RequestKey>, name_of: &[u32]) -> Option<String> {
        if self.contexts.as_slice().is_empty() {
            return Some("no sample has a request: no program published a thread context".into());
        }
        let RequestKey::Attribute(name) = key? else {
            return None;
        };
        if name_of.iter().any(|name| *name > 0) {
            return None;
        }
        let known: BTreeSet<&str> = self.keys.values().flatten().map(String::as_str).collect();
        let shown = Vec::from_iter(known.iter().copied().take(MAX_SHOWN_KEYS));
        let known = match (shown.is_empty(), known.len() > shown.len()) {
            (true, _) => "none".to_owned(),
            (false, false) => shown.join(", "),
            (false, true) => format!("{}, …", shown.join(", ")),
        };
        Some(format!(
            "no request has the attribute {name}; known attributes: {known}"
        ))
    }

    /// Returns the first and last time of each span, in all threads.
    fn lengths(
        &self,
        by_thread: &FxHashMap<i32, Vec<Moment>>,
    ) -> FxHashMap<RequestIds, (u64, u64)> {
        let mut lengths = FxHashMap::default();
        for moment in by_thread.values().flatten() {
            if let Some(ids) = self.contexts.get(moment.context).ids {
                let span = lengths.entry(ids).or_insert((moment.from, moment.time));
                *span = (span.0.min(moment.from), span.1.max(moment.time));
            }
        }
        lengths
    }
}

impl Context {
    fn name(&self, key: &RequestKey, keys: &[String]) -> Option<String> {
        match key {
            RequestKey::Trace => self.ids.map(|ids| ids.trace_hex()),
            RequestKey::Span => self.ids.map(|ids| ids.span_hex()),
            RequestKey::Attribute(name) => {
                let is_it = |key: u8| keys.get(usize::from(key)) == Some(name);
                let values = attributes(&self.attributes).filter(|(key, _)| is_it(*key));
                let (_, value) = values.last()?;
                Some(String::from_utf8_lossy(value).into_owned())
            }
        }
    }
}
