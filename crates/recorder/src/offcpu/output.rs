//! [`WaitOutput`]: a record sink that adds samples of waits or memory to a recording.

use std::io;

use rprof_records::ProcessEvent;

use super::OffCpu;
use crate::allocations::Allocations;
use crate::memory::Memory;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

pub(crate) struct WaitOutput<'a> {
    pub(crate) off_cpu: &'a mut Option<OffCpu>,
    /// `None` with `off_cpu`: a recording has one of the three.
    pub(crate) memory: &'a mut Option<Memory>,
    pub(crate) allocations: &'a mut Option<Allocations>,
    pub(crate) output: &'a mut RotatingOutput,
}

impl RecordSink for WaitOutput<'_> {
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()> {
        if self.output.is_context(released) {
            return self.output.put(released, event);
        }
        if let Some(off_cpu) = &mut *self.off_cpu {
            return off_cpu.handle(released, event, self.output);
        }
        match (&mut *self.memory, &mut *self.allocations) {
            (Some(memory), _) => memory.handle(released, event, self.output),
            (None, Some(allocations)) => allocations.handle(released, event, self.output),
            (None, None) => self.output.put(released, event),
        }
    }
}
