//! [`WaitOutput`]: a record sink that adds wait samples to a recording.

use std::io;

use rprof_records::ProcessEvent;

use super::OffCpu;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

pub(crate) struct WaitOutput<'a> {
    pub(crate) off_cpu: &'a mut Option<OffCpu>,
    pub(crate) output: &'a mut RotatingOutput,
}

impl RecordSink for WaitOutput<'_> {
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()> {
        match self.off_cpu {
            Some(off_cpu) => off_cpu.handle(released, event, self.output),
            None => self.output.put(released, event),
        }
    }
}
