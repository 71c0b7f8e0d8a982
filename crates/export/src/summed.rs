//! Samples summed up by labels and stack, in an order that follows from names and addresses.

use std::collections::BTreeMap;

use rprof_profile::{ObjectKind, Profile, StackId, ThreadId};

use crate::locations::Locations;
use crate::names::CleanNames;
use crate::options::SampleLabel;

/// Samples of the same labels and stack.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) labels: Labels,
    /// Ranks of the frames, root first.
    pub(crate) stack: Vec<u32>,
    /// Number and weight of the samples of each event.
    pub(crate) values: Vec<i64>,
}

/// Values of labels; `None` for those that are not asked for, or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    /// Place of the thread's name in the order of names.
    thread: Option<u32>,
    /// Place of the process's name in the order of names.
    process: Option<u32>,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    is_kernel: Option<bool>,
}

/// Value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelValue {
    Text(String),
    Number(i64),
}

/// Names of threads in the order of their text.
pub(crate) struct CommOrder<'p> {
    profile: &'p Profile,
    /// Index of each name, by its place in the order.
    sorted: Vec<u32>,
    /// Place of each name, by its index.
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

    /// Returns the labels with their values, in the order of [`SampleLabel::ALL`].
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
        ];
        let known = all
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)));
        known.collect()
    }
}

/// Sums samples up by labels and stack, in an order that follows from names and addresses.
pub(crate) fn summed(
    profile: &Profile,
    locations: &Locations<'_>,
    comms: &CommOrder<'_>,
    events: &[usize],
    wanted: &[SampleLabel],
) -> Vec<Row> {
    let mut sums = Sums {
        profile,
        locations,
        comms,
        wanted,
        values: 2 * events.len(),
        rows: BTreeMap::new(),
    };
    let place = |event: usize| events.iter().position(|known| *known == event);
    match &profile.samples {
        Some(samples) if wanted.contains(&SampleLabel::Cpu) => {
            for sample in samples.iter() {
                if let Some(event) = place(sample.event) {
                    let at = (sample.thread, sample.stack, sample.cpu);
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
    let rows = sums.rows.into_iter();
    rows.map(|((labels, stack), values)| Row {
        labels,
        stack,
        values,
    })
    .collect()
}

/// Sums under way.
struct Sums<'a, 'p> {
    profile: &'a Profile,
    locations: &'a Locations<'p>,
    comms: &'a CommOrder<'p>,
    wanted: &'a [SampleLabel],
    /// Values of a row.
    values: usize,
    rows: BTreeMap<(Labels, Vec<u32>), Vec<i64>>,
}

impl Sums<'_, '_> {
    /// Adds number and weight of samples of a thread, a stack and a CPU.
    fn add(
        &mut self,
        (thread, stack, cpu): (ThreadId, StackId, Option<u32>),
        at: usize,
        (samples, weight): (u64, u64),
    ) {
        let frames = self.profile.frames(stack);
        let ranks = frames.map(|frame| self.locations.rank(frame)).collect();
        let key = (self.labels(thread, stack, cpu), ranks);
        let values = self.rows.entry(key).or_insert_with(|| vec![0; self.values]);
        for (value, more) in values.iter_mut().skip(at).zip([samples, weight]) {
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
