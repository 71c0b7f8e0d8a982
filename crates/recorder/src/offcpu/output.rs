//! [`WaitOutput`]: a record sink that adds samples of waits or memory to a recording.

use std::io;

use rprof_records::ProcessEvent;

use super::OffCpu;
use crate::memory::Memory;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

pub(crate) struct WaitOutput<'a> {
    pub(crate) off_cpu: &'a mut Option<OffCpu>,
    /// `None` with `off_cpu`: a recording has one of the two.
    pub(crate) memory: &'a mut Option<Memory>,
    pub(crate) output: &'a mut RotatingOutput,
}

impl RecordSink for WaitOutput<'_> {
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()> {
        match (&mut *self.off_cpu, &mut *self.memory) {
            (Some(off_cpu), _) => off_cpu.handle(released, event, self.output),
            (None, Some(memory)) => memory.handle(released, event, self.output),
            (None, None) => self.output.put(released, event),
        }
    }
}
