//! [`WaitOutput`]: a record sink that adds samples of waits or memory to a recording.

use std::io;

use rprof_records::ProcessEvent;

use super::{OffCpu, ThreadTime};
use crate::allocations::{Allocated, Allocations};
use crate::memory::{Memory, MemoryUse};
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

pub(crate) struct WaitOutput {
    pub(crate) off_cpu: Option<OffCpu>,
    /// `None` with `off_cpu`: a recording has one of the three.
    pub(crate) memory: Option<Memory>,
    pub(crate) allocations: Option<Allocations>,
    pub(crate) output: RotatingOutput,
}

/// Sums of a whole recording.
#[derive(Default)]
pub(crate) struct FinalSums {
    pub(crate) thread_time: Option<ThreadTime>,
    pub(crate) memory: Option<MemoryUse>,
    pub(crate) allocations: Option<Allocated>,
}

impl WaitOutput {
    /// Writes the last samples of waits and memory. Returns the sums and the first error.
    pub(crate) fn finish(&mut self) -> (FinalSums, Option<io::Error>) {
        let output = &mut self.output;
        let mut failure = None;
        let off_cpu = self.off_cpu.as_mut().map(|waits| waits.finish(output));
        let thread_time = value(off_cpu, &mut failure);
        let memory = self.memory.as_mut().map(|memory| memory.finish(output));
        let memory = value(memory, &mut failure);
        let allocations = self.allocations.as_mut().map(|made| made.finish(output));
        let sums = FinalSums {
            thread_time,
            memory,
            allocations: value(allocations, &mut failure),
        };
        (sums, failure)
    }
}

/// Returns a value, or keeps its error unless there is one already.
fn value<T>(result: Option<io::Result<T>>, failure: &mut Option<io::Error>) -> Option<T> {
    match result.transpose() {
        Ok(value) => value,
        Err(error) => {
            failure.get_or_insert(error);
            None
        }
    }
}

impl RecordSink for WaitOutput {
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()> {
        let output = &mut self.output;
        if output.is_context(released) {
            return output.put(released, event);
        }
        if let Some(off_cpu) = &mut self.off_cpu {
            return off_cpu.handle(released, event, output);
        }
        match (&mut self.memory, &mut self.allocations) {
            (Some(memory), _) => memory.handle(released, event, output),
            (None, Some(allocations)) => allocations.handle(released, event, output),
            (None, None) => output.put(released, event),
        }
    }
}
