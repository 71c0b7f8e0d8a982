//! Single samples, in time order.

mod details;
mod frame;
mod items;
mod lookup;
mod side;
mod store;
mod trace;
mod view;

use rprof_perfdata::PerfData;
use rprof_profile::intern::Values;
use rprof_profile::{Filter, is_kernel_address};
use rprof_symbols::Symbolizer;

use crate::comms::thread_name;
use crate::latency::{LatencyOptions, Timelines};
use crate::options::{PassOptions, SampleRows, SymbolOptions};
use crate::requests::RequestTimes;
use crate::sample_pass::resolve;
use crate::sample_pass::results::WorkerOutput;
use crate::samples::lookup::{locate, lookup_time, sample_of};
use crate::samples::store::SampleStore;
use crate::sideband_pass::Index;
use crate::stack_filter::StackFilter;
use crate::symbolize::symbolize;
use crate::warnings::warnings;

pub use details::Details;
pub use frame::{SampleFrame, SampleLine};
pub use items::Item;
pub use side::RecordView;
pub use trace::{Trace, event_names};
pub use view::SampleView;

/// Samples of a recording, sorted by time, then by file order. Each takes about 70 bytes of memory.
#[derive(Debug)]
pub struct Samples<'a> {
    store: SampleStore<'a>,
    side: Vec<side::SidePosition>,
    warnings: Vec<String>,
}

impl<'a> Samples<'a> {
    /// Reads and symbolizes all samples that the filter accepts, on all cores.
    pub fn read(data: &'a PerfData, symbolizer: &Symbolizer, filter: &Filter) -> Samples<'a> {
        Samples::read_with(data, symbolizer, filter, &Details::default())
    }

    /// Reads samples like [`read`](Self::read), with details.
    pub fn read_with(
        data: &'a PerfData,
        symbolizer: &Symbolizer,
        filter: &Filter,
        details: &Details,
    ) -> Samples<'a> {
        let mut index = Index::build_with(data, &symbolizer.memory().strangers, || ());
        if details.need_blocks() {
            index.keep_blocks();
        }
        let n = rprof_parallel::available();
        let pass = PassOptions {
            by_thread: true,
            leaves_only: false,
            rows: SampleRows::Whole,
            addresses: true,
        };
        let timelines = (!filter.parallelism.is_empty()).then(|| Timelines::of(&index));
        let latency = LatencyOptions {
            timelines: timelines.as_ref(),
            divides: false,
            parallelism: &filter.parallelism,
        };
        let requests = RequestTimes::of(&index, filter, (None, false));
        let filters = (filter, latency, requests.as_ref());
        let mut resolved = resolve(&index, symbolizer, filters, pass, n);
        (resolved.rows).sort_unstable_by_key(|r| (r.time, r.position, r.group.event));
        let trace = details.trace.then(|| Trace::of(data)).flatten();
        further_locations(&index, &mut resolved, details, trace.as_ref());
        let locations = resolved.locations.as_slice();
        let names = SymbolOptions {
            threads: n,
            ..SymbolOptions::default()
        };
        let heat = || resolved.rows_by_location();
        let symbols = symbolize(&index, locations, heat, symbolizer, names, &[]);
        let WorkerOutput { rows, stacks, .. } = &mut resolved;
        let wanted = StackFilter::new(filter, &symbols, false);
        rows.retain(|row| {
            let stack = stacks.stack(row.group.stack);
            let leaf = stack.leaf();
            let is_focused = || {
                let callers = stacks.callers().get(stack.callers);
                (callers.iter().copied().chain(leaf)).any(|at| wanted.is_focused(at))
            };
            wanted.accepts_leaf(leaf, std::iter::empty) && (!wanted.has_focus() || is_focused())
        });
        let mut warnings = warnings(&index, symbolizer, resolved.faults, filter);
        if index.flood_from.is_some() {
            warnings.push(
                "the recording has more samples than its length allows: the last ones were skipped"
                    .to_owned(),
            );
        }
        let mut names = Values::default();
        let name_of = (resolved.rows.iter())
            .map(|row| {
                let name = row.group.comm.and_then(|c| index.timeline.comm_name(c));
                names.intern(thread_name(name, row.group.tid))
            })
            .collect();
        let side = side::collect(&index, filter, &details.side);
        let store = SampleStore {
            index,
            resolved,
            symbols,
            names: names.into_vec(),
            name_of,
            event_names: event_names(data),
            trace,
        };
        Samples {
            store,
            side,
            warnings,
        }
    }

    /// Returns the result of pass one: processes, tallies, damage.
    pub fn index(&self) -> &Index<'a> {
        &self.store.index
    }

    /// Returns the warnings about the recording, as sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Iterates over the samples in time order.
    pub fn iter(&self) -> impl Iterator<Item = SampleView<'_>> {
        (0..self.store.resolved.rows.len()).map(|i| SampleView::of_row(&self.store, i))
    }

    /// Iterates over the samples and the requested records in time order.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        items::merge(&self.store, &self.side)
    }
}

fn further_locations(
    index: &Index<'_>,
    resolved: &mut WorkerOutput,
    details: &Details,
    trace: Option<&Trace<'_>>,
) {
    let has_functions = trace.is_some_and(Trace::has_functions);
    if !(details.addresses || details.branches || has_functions) {
        return;
    }
    let WorkerOutput {
        rows, locations, ..
    } = resolved;
    for row in rows.iter() {
        let Some((_, sample)) = sample_of(index, row) else {
            continue;
        };
        let (pid, time) = (row.group.pid, lookup_time(&sample));
        let mut add = |address| {
            locations.intern(locate(index, pid, time, address));
        };
        if details.addresses {
            sample.addr().into_iter().for_each(&mut add);
        }
        if details.branches
            && let Some(branches) = sample.branch_stack()
        {
            branches
                .iter()
                .flat_map(|b| [b.from, b.to])
                .for_each(&mut add);
        }
        if let Some(format) = trace.and_then(|t| t.format(row.group.event as usize))
            && format.has_functions()
            && let Some(raw) = sample.raw()
        {
            format.functions(&raw.to_cow(), &mut |address| {
                if is_kernel_address(address) {
                    add(address);
                }
            });
        }
    }
}
