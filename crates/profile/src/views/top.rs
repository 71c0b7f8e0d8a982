//! Top functions, and sums by thread, object or line.

use rustc_hash::FxHashMap;

use crate::frame::{FunctionId, Line, ObjectId};
use crate::language::Language;
use crate::model::Profile;
use crate::samples::{AggregatedStack, Thread};

/// Weight of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeighBy {
    /// Period of the sample: the number of represented events.
    #[default]
    Period,
    /// Always 1.
    Samples,
}

impl WeighBy {
    /// Returns an entry's total weight.
    pub fn of(self, entry: &AggregatedStack) -> u64 {
        match self {
            WeighBy::Period => entry.weight,
            WeighBy::Samples => entry.samples,
        }
    }

    /// Returns one sample's weight.
    pub fn of_sample(self, weight: u64) -> u64 {
        match self {
            WeighBy::Period => weight,
            WeighBy::Samples => 1,
        }
    }
}

/// Columns of row keys. Process and thread require thread ids in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Thread name.
    pub comm: bool,
    /// Process.
    pub pid: bool,
    /// Thread.
    pub tid: bool,
    /// Thread state: running, or the wait reason.
    pub state: bool,
    /// Language of the function.
    pub language: bool,
    /// Object (image) of the function.
    pub object: bool,
    /// Function.
    pub symbol: bool,
    /// Line. Requires functions distinguished by line.
    pub line: bool,
}

impl Keys {
    /// Functions, each with its object.
    pub const FUNCTIONS: Keys = Keys {
        comm: false,
        pid: false,
        tid: false,
        state: false,
        language: false,
        object: true,
        symbol: true,
        line: false,
    };
}

/// Key of a row. `None` for other columns than the [`Keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// Index into [`Profile::comms`].
    pub comm: Option<u32>,
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Thread state: the wait reason's function; `Some(None)` if running.
    pub state: Option<Option<FunctionId>>,
    /// Language of the function.
    pub language: Option<Language>,
    /// Object (image) of the function.
    pub object: Option<ObjectId>,
    /// Function of the row, in the profile's table.
    pub function: Option<FunctionId>,
    /// Line; `Some(None)` if unknown.
    pub line: Option<Option<Line>>,
}

impl RowKey {
    /// Key of samples without frames.
    const NONE: RowKey = RowKey {
        comm: None,
        pid: None,
        tid: None,
        state: None,
        language: None,
        object: None,
        function: None,
        line: None,
    };
}

/// Row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// Key of the row.
    pub key: RowKey,
    /// Weight of samples with the row at the leaf.
    pub self_weight: u64,
    /// Weight of samples that contain the row, once per sample.
    pub total_weight: u64,
    /// Number of samples with the row at the leaf.
    pub self_samples: u64,
    /// Number of samples that contain the row.
    pub total_samples: u64,
}

/// Maximum number of events for a table of all functions per event.
const FEW_EVENTS: usize = 32;

/// Rows of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopFunctions {
    /// Total weight, the base of percentages.
    pub weight_total: u64,
    /// Rows, sorted by name until [`sort`](Self::sort).
    pub rows: Vec<TopRow>,
}

impl TopFunctions {
    /// Sums the stacks of one event.
    pub fn of(profile: &Profile, event: usize, weight: WeighBy, keys: Keys) -> TopFunctions {
        let entries = profile.aggregated.iter().filter(|e| e.event == event);
        TopFunctions::of_entries(profile, entries, weight, keys)
    }

    /// Sums stacks, possibly [reweighted](crate::views::selection::Selection::weigh).
    pub fn of_entries<'e>(
        profile: &Profile,
        entries: impl Iterator<Item = &'e AggregatedStack>,
        weight: WeighBy,
        keys: Keys,
    ) -> TopFunctions {
        let is_by_function = !(keys.comm || keys.pid || keys.tid || keys.state);
        // Tables of all functions per event cost events times functions.
        let has_few_events = profile.events.len() <= FEW_EVENTS;
        if is_by_function && keys.symbol && has_few_events {
            return TopFunctions::by_function(profile, entries, weight, keys);
        }
        let mut rows: Vec<TopRow> = Vec::new();
        let mut numbers: FxHashMap<RowKey, usize> = FxHashMap::default();
        // Look up each function's row once if the key depends on nothing else.
        let cached = usize::from(is_by_function && has_few_events) * profile.functions.len();
        let mut by_function = vec![None; cached];
        let mut counted: Vec<usize> = Vec::new();
        let mut weight_total = 0u64;
        for (number, entry) in (1..).zip(entries) {
            let amount = weight.of(entry);
            weight_total = weight_total.saturating_add(amount);
            let mut leaf = None;
            if profile.frames(entry.stack).next().is_none() {
                let key = RowKey {
                    comm: keys.comm.then_some(profile.thread(entry.thread).comm),
                    pid: profile.thread(entry.thread).pid.filter(|_| keys.pid),
                    tid: profile.thread(entry.thread).tid.filter(|_| keys.tid),
                    state: keys.state.then_some(None),
                    ..RowKey::NONE
                };
                let at = *numbers.entry(key).or_insert_with(|| {
                    rows.push(TopRow::empty(key));
                    counted.push(0);
                    rows.len() - 1
                });
                let row = &mut rows[at];
                row.total_weight = row.total_weight.saturating_add(amount);
                row.total_samples = row.total_samples.saturating_add(entry.samples);
                leaf = Some(at);
            }
            for function in profile.stack(entry.stack) {
                let mut known = by_function.get_mut(function.0 as usize);
                let at = known.as_deref().copied().flatten().unwrap_or_else(|| {
                    let key = key(profile, entry, function, keys);
                    *numbers.entry(key).or_insert_with(|| {
                        rows.push(TopRow::empty(key));
                        counted.push(0);
                        rows.len() - 1
                    })
                });
                if let Some(known) = &mut known {
                    **known = Some(at);
                }
                leaf = Some(at);
                if std::mem::replace(&mut counted[at], number) != number {
                    let row = &mut rows[at];
                    row.total_weight = row.total_weight.saturating_add(amount);
                    row.total_samples = row.total_samples.saturating_add(entry.samples);
                }
            }
            if let Some(at) = leaf {
                let row = &mut rows[at];
                row.self_weight = row.self_weight.saturating_add(amount);
                row.self_samples = row.self_samples.saturating_add(entry.samples);
            }
        }
        TopFunctions {
            weight_total,
            rows: by_names(profile, &rows),
        }
    }

    fn by_function<'e>(
        profile: &Profile,
        entries: impl Iterator<Item = &'e AggregatedStack>,
        weight: WeighBy,
        keys: Keys,
    ) -> TopFunctions {
        let count = profile.functions.len();
        let mut counted = vec![0u32; count];
        let mut totals = vec![(0u64, 0u64); count];
        let mut own = vec![(0u64, 0u64); count];
        let mut alone = None;
        let mut weight_total = 0u64;
        for (number, entry) in (1..).zip(entries) {
            let amount = weight.of(entry);
            weight_total = weight_total.saturating_add(amount);
            let add = |(weight, samples): &mut (u64, u64)| {
                *weight = weight.saturating_add(amount);
                *samples = samples.saturating_add(entry.samples);
            };
            let (outer, inner) = profile.lists(entry.stack);
            let mut leaf = None;
            for list in [outer, inner] {
                for function in profile.functions_of(list) {
                    let at = function.0 as usize;
                    if std::mem::replace(&mut counted[at], number) != number {
                        add(&mut totals[at]);
                    }
                    leaf = Some(at);
                }
            }
            match leaf {
                Some(at) => add(&mut own[at]),
                None => add(alone.get_or_insert((0, 0))),
            }
        }
        let row = |at: usize| {
            let function = FunctionId(at as u32);
            TopRow {
                self_weight: own[at].0,
                total_weight: totals[at].0,
                self_samples: own[at].1,
                total_samples: totals[at].1,
                ..TopRow::empty(key_of_function(profile, function, keys))
            }
        };
        let alone = alone.map(|(weight, samples)| TopRow {
            self_weight: weight,
            total_weight: weight,
            self_samples: samples,
            total_samples: samples,
            ..TopRow::empty(RowKey::NONE)
        });
        let rows = (0..count).filter(|at| counted[*at] > 0).map(row);
        let rows: Vec<TopRow> = rows.chain(alone).collect();
        TopFunctions {
            weight_total,
            rows: by_names(profile, &rows),
        }
    }

    /// Sorts by total or self weight, heaviest first, then by the other weight and name.
    pub fn sort(&mut self, by_total: bool) {
        self.rows.sort_by_key(|r| {
            let (a, b) = match by_total {
                true => (r.total_weight, r.self_weight),
                false => (r.self_weight, r.total_weight),
            };
            (u64::MAX - a, u64::MAX - b)
        });
    }
}

impl TopRow {
    fn empty(key: RowKey) -> TopRow {
        TopRow {
            key,
            self_weight: 0,
            total_weight: 0,
            self_samples: 0,
            total_samples: 0,
        }
    }
}

/// Sorts rows by name: ids depend on the order of threads.
fn by_names(profile: &Profile, rows: &[TopRow]) -> Vec<TopRow> {
    let names = |row: &TopRow| {
        let function = row.key.function.map(|id| &profile.function(id).name);
        (
            row.key.comm.and_then(|id| profile.comms.get(id as usize)),
            function.and_then(|name| name.as_deref().ok()),
            row.key.object.map(|id| &*profile.object(id).name),
        )
    };
    // Lookups in each comparison would dominate the sort.
    let mut named: Vec<_> = rows.iter().map(|row| (names(row), row)).collect();
    named.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.key.cmp(&b.1.key)));
    named.into_iter().map(|(_, row)| *row).collect()
}

pub(crate) fn key(
    profile: &Profile,
    entry: &AggregatedStack,
    function: FunctionId,
    keys: Keys,
) -> RowKey {
    let thread: &Thread = profile.thread(entry.thread);
    RowKey {
        comm: keys.comm.then_some(thread.comm),
        pid: thread.pid.filter(|_| keys.pid),
        tid: thread.tid.filter(|_| keys.tid),
        state: keys.state.then(|| profile.reason_at(entry.stack)),
        ..key_of_function(profile, function, keys)
    }
}

fn key_of_function(profile: &Profile, function: FunctionId, keys: Keys) -> RowKey {
    RowKey {
        comm: None,
        pid: None,
        tid: None,
        state: None,
        language: keys.language.then(|| profile.language(function)),
        object: keys.object.then(|| profile.function(function).object),
        function: keys.symbol.then_some(function),
        line: keys.line.then(|| profile.function(function).line),
    }
}
