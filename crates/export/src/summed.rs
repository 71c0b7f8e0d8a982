//! Samples summed up by labels and stack, sorted by names and addresses.

use rprof_profile::intern::Values;
use rprof_profile::{ObjectKind, Profile, RequestIds, StackId, ThreadId, hex};
use rustc_hash::FxHashMap;

use crate::frame_lists::{FrameLists, ListedStack};
use crate::names::CleanNames;
use crate::options::SampleLabel;

/// Sum of the samples with the same labels and stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) labels: u32,
    pub(crate) stack: ListedStack,
    at: u32,
}

#[derive(Debug)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    values: Vec<i64>,
    /// Values per row: number and weight of the samples of each event.
    width: usize,
    labels: Values<Labels>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, index: usize) -> &Row {
        &self.rows[index]
    }

    pub(crate) fn labels(&self, row: &Row) -> &Labels {
        self.labels.get(row.labels)
    }

    pub(crate) fn values(&self, index: usize) -> &[i64] {
        let at = self.rows[index].at as usize * self.width;
        &self.values[at..at + self.width]
    }
}

/// Label values; `None` if not requested or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Labels {
    thread: Option<u32>,
    process: Option<u32>,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    is_kernel: Option<bool>,
    trace: Option<[u8; 16]>,
    span: Option<[u8; 8]>,
}

impl Labels {
    /// Returns the ids of the request, if both are requested and known.
    pub(crate) fn request(&self) -> Option<RequestIds> {
        let (trace, span) = (self.trace?, self.span?);
        Some(RequestIds { trace, span })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelValue {
    Text(String),
    Number(i64),
}

pub(crate) struct CommOrder<'p> {
    profile: &'p Profile,
    /// Name index, by rank.
    sorted: Vec<u32>,
    /// Rank, by name index.
    places: Vec<u32>,
}

impl<'p> CommOrder<'p> {
    pub(crate) fn new(profile: &'p Profile) -> CommOrder<'p> {
        let mut sorted: Vec<u32> = (0..profile.comms.len() as u32).collect();
        sorted.sort_by_key(|comm| &profile.comms[*comm as usize]);
        let mut places = vec![0; sorted.len()];
        for (place, comm) in (0..).zip(&sorted) {
            places[*comm as usize] = place;
        }
        CommOrder {
            profile,
            sorted,
            places,
        }
    }

    fn place(&self, comm: u32) -> Option<u32> {
        self.places.get(comm as usize).copied()
    }

    /// Returns labels and values, in the order of [`SampleLabel::ALL`].
    pub(crate) fn values(&self, labels: &Labels) -> Vec<(SampleLabel, LabelValue)> {
        let name = |place: Option<u32>| {
            let comm = self.sorted.get(place? as usize)?;
            let name = CleanNames::new(self.profile).comm(*comm);
            Some(LabelValue::Text(name.into_owned()))
        };
        let number = |number: Option<i64>| number.map(LabelValue::Number);
        let mode = labels.is_kernel.map(|is_kernel| match is_kernel {
            true => "kernel",
            false => "user",
        });
        let all = [
            (SampleLabel::Thread, name(labels.thread)),
            (SampleLabel::Process, name(labels.process)),
            (SampleLabel::Pid, number(labels.pid.map(i64::from))),
            (SampleLabel::Tid, number(labels.tid.map(i64::from))),
            (SampleLabel::Cpu, number(labels.cpu.map(i64::from))),
            (
                SampleLabel::Mode,
                mode.map(|mode| LabelValue::Text(mode.to_owned())),
            ),
            (
                SampleLabel::Trace,
                labels.trace.map(|id| LabelValue::Text(hex(&id))),
            ),
            (
                SampleLabel::Span,
                labels.span.map(|id| LabelValue::Text(hex(&id))),
            ),
        ];
        let known = all
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)));
        known.collect()
    }
}

/// Sums up samples by labels and stack, sorted by names and addresses.
pub(crate) fn summed(
    profile: &Profile,
    lists: &FrameLists,
    comms: &CommOrder<'_>,
    events: &[usize],
    wanted: &[SampleLabel],
) -> Rows {
    let mut sums = Sums {
        profile,
        lists,
        comms,
        wanted,
        rows: Rows {
            rows: Vec::new(),
            values: Vec::new(),
            width: 2 * events.len(),
            labels: Values::default(),
        },
        known: FxHashMap::default(),
    };
    let place = |event: usize| events.iter().position(|known| *known == event);
    match &profile.streams {
        Some(streams) if wanted.contains(&SampleLabel::Cpu) => {
            for sample in streams.iter() {
                let Some(entry) = profile.aggregated.get(sample.entry as usize) else {
                    continue;
                };
                if let Some(event) = place(entry.event) {
                    let at = (entry.thread, entry.stack, sample.cpu);
                    sums.add(at, 2 * event, (1, sample.weight));
                }
            }
        }
        _ => {
            for entry in &profile.aggregated {
                if let Some(event) = place(entry.event) {
                    let at = (entry.thread, entry.stack, None);
                    sums.add(at, 2 * event, (entry.samples, entry.weight));
                }
            }
        }
    }
    let mut rows = sums.rows;
    let mut by_value: Vec<u32> = (0..rows.labels.as_slice().len() as u32).collect();
    by_value.sort_unstable_by_key(|number| rows.labels.get(*number));
    let mut ranks = vec![0u32; by_value.len()];
    for (rank, number) in (0..).zip(&by_value) {
        ranks[*number as usize] = rank;
    }
    rows.rows
        .sort_unstable_by_key(|row| (ranks[row.labels as usize], row.stack));
    rows
}

struct Sums<'a, 'p> {
    profile: &'a Profile,
    lists: &'a FrameLists,
    comms: &'a CommOrder<'p>,
    wanted: &'a [SampleLabel],
    rows: Rows,
    known: FxHashMap<(u32, ListedStack), u32>,
}

impl Sums<'_, '_> {
    fn add(
        &mut self,
        (thread, stack, cpu): (ThreadId, StackId, Option<u32>),
        at: usize,
        (samples, weight): (u64, u64),
    ) {
        let labels = self.labels(thread, stack, cpu);
        let labels = self.rows.labels.intern(labels);
        let stack = self.lists.stack(self.profile, stack);
        let rows = &mut self.rows;
        let place = *self.known.entry((labels, stack)).or_insert_with(|| {
            let at = rows.rows.len() as u32;
            rows.rows.push(Row { labels, stack, at });
            rows.values.resize(rows.values.len() + rows.width, 0);
            at
        });
        let values = &mut rows.values[place as usize * rows.width + at..][..2];
        for (value, more) in values.iter_mut().zip([samples, weight]) {
            *value = value.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
        }
    }

    fn labels(&self, thread: ThreadId, stack: StackId, cpu: Option<u32>) -> Labels {
        let mut labels = Labels::default();
        let thread = self.profile.thread(thread);
        for label in self.wanted {
            match label {
                SampleLabel::Thread => labels.thread = self.comms.place(thread.comm),
                SampleLabel::Process => {
                    let comm = thread.process_comm;
                    labels.process = comm.and_then(|comm| self.comms.place(comm));
                }
                SampleLabel::Pid => labels.pid = thread.pid,
                SampleLabel::Tid => labels.tid = thread.tid,
                SampleLabel::Cpu => labels.cpu = cpu,
                SampleLabel::Trace => labels.trace = thread.request.map(|ids| ids.trace),
                SampleLabel::Span => labels.span = thread.request.map(|ids| ids.span),
                SampleLabel::Mode => {
                    let leaf = self.profile.stack(stack).next_back();
                    labels.is_kernel = leaf.map(|leaf| {
                        let object = self.profile.function(leaf).object;
                        self.profile.object(object).kind == ObjectKind::Kernel
                    });
                }
            }
        }
        labels
    }
}
