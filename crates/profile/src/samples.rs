//! One sample after the other, in order of time.

use rprof_perfdata::PerfData;
use rprof_symbols::Symbolizer;

use crate::analyse::{Options, thread_name};
use crate::index::Index;
use crate::intern::Values;
use crate::location::Location;
use crate::model::{Function, Object};
use crate::resolve::{Keep, Resolved, resolve};
use crate::symbolize::{Symbols, symbolize};

/// All samples of a recording, sorted by time; those of the same time in the
/// order of the file. Takes memory in proportion to their number (some 70 bytes each).
#[derive(Debug)]
pub struct Samples<'a> {
    index: Index<'a>,
    resolved: Resolved,
    symbols: Symbols,
    /// Names of the threads, by row; the same names are kept once.
    names: Vec<String>,
    name_of: Vec<u32>,
}

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleView<'s> {
    /// Name of the thread, or what stands for it.
    pub comm: &'s str,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// CPU, if recorded.
    pub cpu: Option<u32>,
    /// Nanoseconds of the recording's clock.
    pub time: u64,
    /// What it counts for.
    pub period: u64,
    /// Name of its event.
    pub event: &'s str,
    /// Address at which it was taken.
    pub ip: u64,
    /// Whether it has a callchain.
    pub has_chain: bool,
    samples: &'s Samples<'s>,
    stack: u32,
}

/// One frame of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleFrame<'s> {
    /// The address: an offset into the file for images that have one, else the
    /// address in memory. For a caller the return address.
    pub address: u64,
    /// The function.
    pub function: &'s Function,
    /// Distance of `address` from the function's start, in bytes.
    pub offset: u64,
    /// What it lies in.
    pub object: &'s Object,
}

impl<'a> Samples<'a> {
    /// Reads and symbolizes all samples that the options' filter wants. Its
    /// `objects` and `symbols` are not applied.
    pub fn read(data: &'a PerfData, symbolizer: &Symbolizer, options: &Options) -> Samples<'a> {
        let index = Index::build(data);
        let n = options.thread_count();
        let keep = Keep {
            tasks: true,
            rows: true,
        };
        let mut resolved = resolve(&index, &options.filter, keep, n);
        resolved.rows.sort_unstable_by_key(|r| (r.time, r.order));
        let symbols = symbolize(&index, resolved.locations.as_slice(), symbolizer, n);
        let mut names = Values::default();
        let name_of = (resolved.rows.iter())
            .map(|row| {
                let name = row.group.comm.and_then(|c| index.timeline.comm_name(c));
                names.intern(thread_name(name, row.group.tid))
            })
            .collect();
        Samples {
            index,
            resolved,
            symbols,
            names: names.into_vec(),
            name_of,
        }
    }

    /// Pass one's findings: tallies, damage.
    pub fn index(&self) -> &Index<'a> {
        &self.index
    }

    /// The samples.
    pub fn iter(&self) -> impl Iterator<Item = SampleView<'_>> {
        (self.resolved.rows.iter().zip(&self.name_of)).map(|(row, name)| {
            let (pid, tid) = (row.group.pid, row.group.tid);
            let event = &self.index.data.events().list()[row.group.event as usize];
            SampleView {
                comm: &self.names[*name as usize],
                pid,
                tid,
                cpu: row.cpu,
                time: row.time,
                period: row.period,
                event: &event.name,
                ip: row.ip,
                has_chain: row.has_chain,
                samples: self,
                stack: row.group.stack,
            }
        })
    }
}

impl<'s> SampleView<'s> {
    /// The frames, leaf first.
    pub fn frames(&self) -> impl Iterator<Item = SampleFrame<'s>> + use<'s> {
        let samples = self.samples;
        let stack = samples.resolved.stacks.get(self.stack);
        stack.iter().map(move |l| {
            let location: &Location = &samples.resolved.locations.as_slice()[*l as usize];
            let symbolized = samples.symbols.symbolized[*l as usize];
            let function = &samples.symbols.functions[symbolized.function.0 as usize];
            let back = u64::from(location.caller);
            SampleFrame {
                address: location.lookup.wrapping_add(back),
                function,
                offset: symbolized.offset.wrapping_add(back),
                object: &samples.symbols.objects[function.object.0 as usize],
            }
        })
    }
}
