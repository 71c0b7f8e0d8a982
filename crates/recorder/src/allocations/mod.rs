//! Requested memory: converts sampled allocations to samples of the memory that they stand for.
//!
//! ```text
//!   sample of a store to the watched page, unwound --+
//!   mappings, births, execs, ends -------------------+--> Allocations: Heap --> SAMPLES at the end
//! ```
//!
//! The library of `rprof_preload` runs in the recorded programs, and stores to the watched page when
//! a sampled allocation begins or ends. As with resident memory, each stack becomes one sample of
//! each of [`EVENTS`] at the end of the recording.
//!
//! | module | contents |
//! |---|---|
//! | `programs` | programs with and without the library, and where it lies in each process |

mod programs;

use std::io;
use std::sync::Arc;

use rprof_jit::InterpretedNames;
use rprof_memory::{Estimate, Heap, Requests, Sampling, StackId};
use rprof_preload::Hit;
use rprof_records::{
    Attr, ContextMarker, Endian, Misc, ProcessEvent, RecordType, Sample, SampleFields, SampleLayout,
};
use rprof_sampler::Stream;
use rustc_hash::FxHashSet;

use crate::described::made_up_id;
use crate::distinct_stacks::DistinctStacks;
use crate::output::{RotatingOutput, interpreted};
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use programs::Programs;

/// Names of the events in the file: bytes in use at the end, at the peak, and ever requested; then
/// the number of allocations in use at the end, and ever made. Readers show the first by default.
pub(crate) const EVENTS: [&str; 5] = [
    "heap-memory",
    "peak-heap-memory",
    "allocated-memory",
    "heap-objects",
    "allocated-objects",
];

/// Results of a recording of allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allocated {
    /// Totals, as in the file.
    pub requests: Requests,
    /// Name of the first program that did not load the library.
    pub unloaded: Option<String>,
    /// Name of the first program with its own `malloc`.
    pub own_malloc: Option<String>,
    /// Samples with stacks beyond the limits.
    pub further_stacks: u64,
}

#[derive(Debug)]
pub(crate) struct Allocations {
    heap: Heap,
    stacks: DistinctStacks,
    programs: Programs,
    mean: u64,
    /// Layout of the samples after unwinding.
    layout: SampleLayout,
    ids: FxHashSet<u64>,
    any_id: u64,
    names: InterpretedNames,
    layouts: Arc<Layouts>,
    /// Processes with a mapping record for named frames.
    announced: FxHashSet<i32>,
}

impl Allocations {
    /// Follows the hits of the event with these ids. `attr` describes them after unwinding, and
    /// `mean` is the mean distance of two points.
    pub(crate) fn of(
        ids: &[u64],
        attr: &Attr,
        mean: u64,
        names: &InterpretedNames,
        layouts: &Arc<Layouts>,
    ) -> Allocations {
        Allocations {
            heap: Heap::new(Sampling::new(mean)),
            stacks: DistinctStacks::new(names),
            programs: Programs::default(),
            mean,
            layout: SampleLayout::new(attr, Endian::NATIVE),
            ids: ids.iter().copied().collect(),
            any_id: ids.first().copied().unwrap_or(0),
            names: names.clone(),
            layouts: Arc::clone(layouts),
            announced: FxHashSet::default(),
        }
    }

    /// Handles the next record, and passes it on unless it is a hit.
    pub(crate) fn handle(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        if let Some(pid) = self.handle_hit(released) {
            return self.announce(pid, released, output);
        }
        if let Some(event) = event {
            self.handle_process(event);
        }
        output.put(released, event)
    }

    /// Handles a hit, and returns its process; `None` for other records.
    fn handle_hit(&mut self, released: &Released<'_>) -> Option<i32> {
        if released.stream != Stream::Samples {
            return None;
        }
        let raw = (released.raw()).filter(|raw| raw.kind == RecordType::SAMPLE)?;
        let sample = Sample::parse(raw.body, &self.layout).ok()?;
        sample.id().filter(|id| self.ids.contains(id))?;
        let pid = sample.pid()?;
        let registers = sample.regs_user();
        match Hit::decode(|number| registers.and_then(|all| all.get(number))) {
            Some(Hit::Loaded { own_malloc, .. }) => self.programs.load(pid, own_malloc),
            Some(Hit::Allocated {
                number,
                bytes,
                is_followed,
            }) => {
                let is_library = |address| self.programs.is_library(pid, address);
                let stack = self
                    .stacks
                    .intern(&sample, raw.misc, released.time, is_library);
                (self.heap).allocate(pid, number, bytes, stack, is_followed);
            }
            Some(Hit::Freed { number }) => self.heap.free(pid, number),
            _ => {}
        }
        Some(pid)
    }

    fn handle_process(&mut self, event: &ProcessEvent<'_>) {
        self.programs.handle(event);
        match event {
            ProcessEvent::Executed { pid, .. } => {
                self.heap.execute(*pid);
                self.announced.remove(pid);
            }
            ProcessEvent::Ended { pid, tid } if self.programs.end(*pid, *tid) => {
                self.heap.end(*pid);
            }
            _ => {}
        }
    }

    /// Writes the mapping of named frames before the first hit of a process, and after its exec.
    fn announce(
        &mut self,
        pid: i32,
        released: &Released<'_>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        match self.announced.insert(pid) {
            true => interpreted::announce(pid, released, &self.layouts, output),
            false => Ok(()),
        }
    }

    /// Writes the samples of all events.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn finish(&mut self, output: &mut RotatingOutput) -> io::Result<Allocated> {
        let (end, peak, ever) = (self.heap.at_end(), self.heap.at_peak(), self.heap.ever());
        for (event, sums) in [&end, &peak, &ever].into_iter().enumerate() {
            for (stack, sum) in sums {
                self.write(event, *stack, sum.bytes, output)?;
            }
        }
        for (event, sums) in (3..).zip([&end, &ever]) {
            for (stack, sum) in sums {
                self.write(event, *stack, sum.count, output)?;
            }
        }
        let total = |sums: &[(StackId, Estimate)]| {
            let mut total = Estimate::default();
            sums.iter().for_each(|(_, sum)| total += *sum);
            total
        };
        self.programs.finish();
        let (loaded, unloaded, own) = self.programs.count();
        let requests = Requests {
            mean: self.mean,
            unfollowed: self.heap.unfollowed().bytes.round() as u64,
            programs: loaded,
            unloaded,
            own_malloc: own,
            ..Requests::default()
        };
        Ok(Allocated {
            requests: requests.with_sums(total(&end), total(&peak), total(&ever)),
            unloaded: self.programs.first_unloaded(),
            own_malloc: self.programs.first_own_malloc(),
            further_stacks: self.stacks.refused(),
        })
    }

    /// Writes one stack as a sample of the event with this index.
    fn write(
        &self,
        event: usize,
        stack: StackId,
        amount: f64,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        let Some(stack) = self.stacks.get(stack) else {
            return Ok(());
        };
        let mut fields = SampleFields {
            id: match event {
                0 => self.any_id,
                _ => made_up_id(event),
            },
            period: amount.round() as u64,
            ..DistinctStacks::fields(stack)
        };
        let is_marker = |address: &&u64| ContextMarker::is_marker(**address);
        let leaf = fields.callchain.iter().find(|address| !is_marker(address));
        fields.ip = leaf.copied().unwrap_or(fields.ip);
        self.names.mark_used(stack.pid, &fields.callchain);
        let mut bytes = Vec::new();
        (fields.encode(Misc::USER, &self.layout, &mut bytes)).map_err(io::Error::other)?;
        let released = Released {
            time: fields.time,
            cpu: fields.cpu,
            stream: Stream::Samples,
            bytes: &bytes,
        };
        output.put(&released, None)
    }
}
