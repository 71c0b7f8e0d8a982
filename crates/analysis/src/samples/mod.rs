//! Single samples, in order of time.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | [`Samples`]: reading and symbolizing them |
//! | [`view`] | [`SampleView`], [`SampleFrame`]: one sample |
//! | [`side`] | [`RecordView`]: records other than samples |
//! | [`trace`] | [`Trace`]: descriptions of the recording's tracepoints |

pub mod side;
pub mod trace;
pub mod view;

use std::borrow::Cow;

use rprof_perfdata::PerfData;
use rprof_processes::{Pid, SpaceId};
use rprof_records::{CpuMode, RawBytes, RawRecord, RecordType, Sample};
use rprof_symbols::Symbolizer;

use crate::comms::thread_name;
use crate::groups::{RecordPosition, SampleRow};
use crate::leaf_filter::leaf_wanted;
use crate::location::{Context, Location};
use crate::options::Options;
use crate::options::{PassOptions, SymbolOptions};
use crate::sample_pass::resolve;
use crate::sample_pass::results::WorkerOutput;
use crate::sideband_pass::Index;
use crate::symbolize::{Symbols, symbolize};
use crate::warnings::warnings;
use rprof_profile::intern::Values;

pub use side::{Item, RecordView};
pub use trace::{Trace, event_names};
pub use view::{FrameLine, SampleFrame, SampleView};

/// Data to load besides samples and their stacks.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Fields that are read again from the record: see [`SampleView::record`]. A compressed
    /// recording stays expanded in memory then; others cost nothing.
    pub records: bool,
    /// Names for data and target addresses (ADDR).
    pub addresses: bool,
    /// Names for both ends of branches.
    pub branches: bool,
    /// Text of tracepoints.
    pub trace: bool,
    /// Types of records that are listed between the samples.
    pub side: Vec<RecordType>,
}

impl Details {
    fn need_blocks(&self) -> bool {
        self.records || self.addresses || self.branches || self.trace || !self.side.is_empty()
    }
}

/// All samples of a recording, sorted by time; samples of the same time are in the file's order.
/// Takes some 70 bytes of memory for each.
#[derive(Debug)]
pub struct Samples<'a> {
    index: Index<'a>,
    resolved: WorkerOutput,
    symbols: Symbols,
    /// Distinct names of threads; `name_of` has the index by row.
    names: Vec<String>,
    name_of: Vec<u32>,
    event_names: Vec<Cow<'a, str>>,
    trace: Option<Trace<'a>>,
    side: Vec<side::SidePosition>,
    warnings: Vec<String>,
}

impl<'a> Samples<'a> {
    /// Reads and symbolizes all samples that the options' filter accepts.
    pub fn read(data: &'a PerfData, symbolizer: &Symbolizer, options: &Options) -> Samples<'a> {
        Samples::read_with(data, symbolizer, options, &Details::default())
    }

    /// Reads samples like [`read`](Self::read), with details.
    pub fn read_with(
        data: &'a PerfData,
        symbolizer: &Symbolizer,
        options: &Options,
        details: &Details,
    ) -> Samples<'a> {
        let mut index = Index::build(data);
        if details.need_blocks() {
            index.keep_blocks();
        }
        let n = options.thread_count();
        let pass = PassOptions {
            by_thread: true,
            per_sample: true,
            addresses: true,
        };
        let mut resolved = resolve(&index, symbolizer, &options.filter, pass, n);
        (resolved.rows).sort_unstable_by_key(|r| (r.time, r.position, r.group.event));
        let trace = details.trace.then(|| Trace::of(data)).flatten();
        further_locations(&index, &mut resolved, details, trace.as_ref());
        let locations = resolved.locations.as_slice();
        let names = SymbolOptions {
            threads: n,
            ..SymbolOptions::default()
        };
        let heat = || resolved.rows_by_location();
        let symbols = symbolize(&index, locations, heat, symbolizer, names);
        let WorkerOutput { rows, stacks, .. } = &mut resolved;
        rows.retain(|row| {
            let leaf = stacks.stack(row.group.stack).leaf();
            leaf_wanted(&options.filter, leaf, &symbols)
        });
        let warnings = warnings(&index, resolved.unreadable, &options.filter);
        let mut names = Values::default();
        let name_of = (resolved.rows.iter())
            .map(|row| {
                let name = row.group.comm.and_then(|c| index.timeline.comm_name(c));
                names.intern(thread_name(name, row.group.tid))
            })
            .collect();
        let side = side::collect(&index, &options.filter, &details.side);
        Samples {
            index,
            resolved,
            symbols,
            names: names.into_vec(),
            name_of,
            event_names: event_names(data),
            trace,
            side,
            warnings,
        }
    }

    /// Returns the result of pass one: tallies, damage.
    pub fn index(&self) -> &Index<'a> {
        &self.index
    }

    /// Returns the warnings about the recording, in sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Iterates over the samples, in order of time.
    pub fn iter(&self) -> impl Iterator<Item = SampleView<'_>> {
        (0..self.resolved.rows.len()).map(|i| self.view(i))
    }

    /// Iterates over the samples and the records that were asked for, in order of time.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        side::merge(self)
    }

    fn view(&self, i: usize) -> SampleView<'_> {
        let (row, name) = (&self.resolved.rows[i], self.name_of[i]);
        let (pid, tid) = (row.group.pid, row.group.tid);
        SampleView {
            comm: &self.names[name as usize],
            pid,
            tid,
            cpu: row.cpu,
            time: row.time,
            period: row.period,
            event_index: row.group.event as usize,
            event: &self.event_names[row.group.event as usize],
            ip: row.ip,
            has_chain: row.has_chain,
            samples: self,
            row,
        }
    }

    /// Iterates over the frames at a location, innermost first.
    fn frames(&self, location: u32) -> impl DoubleEndedIterator<Item = SampleFrame<'_>> {
        let at: &Location = &self.resolved.locations.as_slice()[location as usize];
        let symbolized = self.symbols.symbolized[location as usize];
        let back = u64::from(at.caller);
        let frames = self.symbols.frames(location).iter().rev();
        frames.map(move |frame| {
            let function = &self.symbols.functions[frame.function.0 as usize];
            SampleFrame {
                address: at.lookup.wrapping_add(back),
                function,
                offset: symbolized.offset.wrapping_add(back),
                object: &self.symbols.objects[function.object.0 as usize],
                inlined: frame.inlined,
                line: frame.line.map(|line| FrameLine {
                    file: &self.symbols.files[line.file.0 as usize],
                    line: line.line,
                    column: line.column,
                }),
            }
        })
    }
}

/// Returns the record at a position, if blocks are kept.
fn record_at<'s>(index: &'s Index<'_>, position: RecordPosition) -> Option<RawRecord<'s>> {
    let block = index.kept_blocks()?.get(position.block())?;
    let bytes = block.bytes.get(position.offset()..)?;
    RawRecord::parse(RawBytes::from(bytes), index.data.endian())
}

/// Returns the record and sample of a row, if blocks are kept.
fn sample_of<'s>(index: &'s Index<'_>, row: &SampleRow) -> Option<(RawRecord<'s>, Sample<'s>)> {
    let record = record_at(index, row.position)?;
    let layout = index.data.events().layout_of(&record)?;
    let sample = Sample::parse(record.body, layout).ok()?;
    Some((record, sample))
}

/// Returns the location of an address of a process outside of callchains. The address itself
/// decides between kernel and user, since kernel code accesses user memory.
fn locate(index: &Index<'_>, pid: i32, time: u64, address: u64) -> Location {
    let timeline = &index.timeline;
    let space = timeline.space(Pid(pid), time).unwrap_or(SpaceId(u32::MAX));
    let context = Context {
        timeline,
        user: timeline.view(space, time),
        kernel: timeline.view(SpaceId::KERNEL, time),
        pid,
        time,
        runtimes: &index.runtimes,
    };
    let mode = match view::is_kernel(address) {
        true => CpuMode::Kernel,
        false => CpuMode::User,
    };
    context.locate(address, mode, false)
}

/// Interns the further locations that the details need names for.
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
        let (pid, time) = (row.group.pid, view::lookup_time(&sample));
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
                if view::is_kernel(address) {
                    add(address);
                }
            });
        }
    }
}
