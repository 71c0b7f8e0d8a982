//! Requested memory: converts sampled allocations to samples of the memory that they stand for.
//!
//! ```text
//!   sample of a store to the watched page, unwound --+
//!   mappings, births, execs, ends -------------------+--> Allocations: Heap --> SAMPLES at the end
//! ```
//!
//! The library of `rprof_preload` runs in the recorded programs, and stores to the watched page when
//! a sampled allocation begins or ends. Programs with probes of their own need no library: their
//! probes are tracepoints, whose payloads have the address, the size and the weight. As with
//! resident memory, each stack becomes one sample of each of [`EVENTS`] at the end of the recording.
//!
//! | module | contents |
//! |---|---|
//! | `probes` | probes of the programs themselves |
//! | `programs` | programs with and without the library, and where it lies in each process |

mod probes;
mod programs;

use std::io;
use std::sync::Arc;

use rprof_jit::InterpretedNames;
use rprof_memory::{Estimate, Heap, History, Requests, Sampling, StackNumber};
use rprof_preload::Hit;
use rprof_records::{Misc, ProcessEvent, SampleFields};
use rprof_sampler::Session;

use crate::described::Rewriting;
use crate::distinct_stacks::DistinctStacks;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::summed::{OVER_TIME, SummedSamples, event_of};
pub use probes::{AllocationProbe, ProbeKind};
use probes::{Probes, Reported};
use programs::Programs;

/// Names of the events in the file: bytes in use at the end, at the peak, and ever requested; then
/// the number of allocations in use at the end, and ever made; then bytes in use over time. Readers
/// show the first by default.
pub(crate) const EVENTS: [&str; 7] = [
    "heap-memory",
    "peak-heap-memory",
    "allocated-memory",
    "heap-objects",
    "allocated-objects",
    OVER_TIME[0],
    OVER_TIME[1],
];

/// Index of the first event of memory over time.
const FIRST_OVER_TIME: usize = 5;

/// Minimum time between two checks whether a snapshot is due, in nanoseconds. A check sums up the
/// stacks of ended processes.
const BETWEEN_CHECKS: u64 = 5_000_000;

/// Part of a program that reports its allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationSource {
    /// The library of `rprof_preload`. The session's event must be a breakpoint on its page with
    /// period 1, with the registers of its hits.
    Library {
        /// Mean distance of sampled bytes.
        mean: u64,
    },
    /// Probes of the program itself. The session's events must be these probes with period 1, and
    /// the first one must report allocations.
    Probes(Vec<AllocationProbe>),
}

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
    probes: Option<Probes>,
    mean: u64,
    /// The hits, and the samples in their place.
    summed: SummedSamples,
    /// Bytes in use at the last snapshot.
    history: History<StackNumber>,
    /// Time of the last record.
    last: u64,
    /// Time from which a snapshot may be due.
    next_check: u64,
}

impl Allocations {
    /// Follows the events of a session; `None` without events.
    pub(crate) fn of(
        session: &Session,
        rewriting: Rewriting,
        source: &AllocationSource,
        names: &InterpretedNames,
        layouts: &Arc<Layouts>,
    ) -> Option<Allocations> {
        let hits = session.events().first()?;
        let (mean, probes) = match source {
            AllocationSource::Library { mean } => (*mean, None),
            AllocationSource::Probes(probes) => (
                0,
                Some(Probes::of(session.events(), rewriting, probes.clone())),
            ),
        };
        let attr = rewriting.unwound(&hits.attr);
        Some(Allocations {
            heap: Heap::new(Sampling::new(mean)),
            stacks: DistinctStacks::new(names),
            programs: Programs::default(),
            probes,
            mean,
            summed: SummedSamples::of(&hits.ids, &attr, names, layouts),
            history: History::default(),
            last: 0,
            next_check: 0,
        })
    }

    /// Handles the next record, and passes it on unless it is a hit.
    pub(crate) fn handle(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        self.last = self.last.max(released.time);
        if let Some(pid) = self.handle_hit(released) {
            self.summed.announce(pid, released, output)?;
            return self.write_snapshot_if_due(output);
        }
        if let Some(event) = event {
            self.handle_process(event);
        }
        output.put(released, event)
    }

    /// Handles a hit, and returns its process; `None` for other records.
    fn handle_hit(&mut self, released: &Released<'_>) -> Option<i32> {
        if let Some(probes) = &self.probes {
            let (misc, sample, reported) = probes.read(released)?;
            let pid = sample.pid()?;
            match reported {
                Some(Reported::Allocated { address, sampled }) => {
                    let stack = (self.stacks).intern(&sample, misc, released.time, |_| false);
                    self.heap.allocate(pid, address, sampled, stack, true);
                }
                Some(Reported::Freed { address }) => self.heap.free(pid, address),
                None => {}
            }
            return Some(pid);
        }
        let (misc, sample) = self.summed.sample(released)?;
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
                let stack = (self.stacks).intern(&sample, misc, released.time, is_library);
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
                self.summed.execute(*pid);
            }
            ProcessEvent::Ended { pid, tid } if self.programs.end(*pid, *tid) => {
                self.heap.end(*pid);
            }
            _ => {}
        }
    }

    fn write_snapshot_if_due(&mut self, output: &mut RotatingOutput) -> io::Result<()> {
        if self.last < self.next_check {
            return Ok(());
        }
        self.next_check = self.last.saturating_add(BETWEEN_CHECKS);
        match self.history.is_due(self.last, self.heap.in_use() as u64) {
            true => self.write_snapshot(output),
            false => Ok(()),
        }
    }

    /// Writes the changes of the bytes in use since the last snapshot.
    fn write_snapshot(&mut self, output: &mut RotatingOutput) -> io::Result<()> {
        let now = (self.heap.at_end().into_iter())
            .map(|(stack, sum)| (stack, sum.bytes.round() as u64))
            .collect();
        let stacks = &self.stacks;
        let time_of = |stack: &StackNumber| stacks.get(*stack).map_or(0, |known| known.time);
        for step in self.history.take(self.last, now, time_of) {
            let event = event_of(&step, FIRST_OVER_TIME);
            if let Some((misc, fields)) = self.fields(step.key, step.amount) {
                let fields = SampleFields {
                    time: step.since,
                    addr: self.last,
                    ..fields
                };
                self.summed.put(event, misc, fields, output)?;
            }
        }
        Ok(())
    }

    /// Writes the samples of all events.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn finish(&mut self, output: &mut RotatingOutput) -> io::Result<Allocated> {
        self.write_snapshot(output)?;
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
        let total = |sums: &[(StackNumber, Estimate)]| {
            let mut total = Estimate::default();
            sums.iter().for_each(|(_, sum)| total += *sum);
            total
        };
        self.programs.finish();
        // With probes there is no library to load.
        let is_library = self.probes.is_none();
        let (loaded, unloaded, own) = match is_library {
            true => self.programs.count(),
            false => (0, 0, 0),
        };
        let of_library = |name: Option<String>| name.filter(|_| is_library);
        let requests = Requests {
            mean: self.mean,
            unfollowed: self.heap.unfollowed().bytes.round() as u64,
            programs: loaded,
            unloaded,
            own_malloc: own,
            probes: self.probes.as_ref().map_or(0, Probes::count),
            ..Requests::default()
        };
        Ok(Allocated {
            requests: requests.with_sums(total(&end), total(&peak), total(&ever)),
            unloaded: of_library(self.programs.first_unloaded()),
            own_malloc: of_library(self.programs.first_own_malloc()),
            further_stacks: self.stacks.refused(),
        })
    }

    /// Writes one stack as a sample of the event with this index.
    fn write(
        &self,
        event: usize,
        stack: StackNumber,
        amount: f64,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        match self.fields(stack, amount.round() as u64) {
            Some((misc, fields)) => self.summed.put(event, misc, fields, output),
            None => Ok(()),
        }
    }

    /// Returns the sample for an amount of one stack.
    fn fields(&self, stack: StackNumber, period: u64) -> Option<(Misc, SampleFields)> {
        let stack = self.stacks.get(stack)?;
        let fields = SampleFields {
            period,
            ..DistinctStacks::fields(stack)
        };
        Some((stack.misc, fields))
    }
}
