//! State of an unfinished recording.

use std::fs;

use rprof_perfdata::PerfData;
use rprof_records::RecordType;

use super::Here;

impl Here {
    pub(crate) fn samples_so_far(&self) -> usize {
        let Some(data) = self.recording() else {
            return 0;
        };
        let blocks = data.blocks().filter_map(Result::ok);
        let samples = |kind| kind == RecordType::SAMPLE;
        (blocks.map(|block| block.walk().filter(|w| samples(w.record.kind)).count())).sum()
    }

    pub(crate) fn is_finished(&self) -> bool {
        (self.recording()).is_some_and(|data| data.warnings().is_empty())
    }

    /// Reads a copy: a mapped file must not grow.
    fn recording(&self) -> Option<PerfData> {
        let path = self.path("perf.data");
        let bytes = fs::read(&path).ok()?;
        PerfData::read(&bytes[..], &path).ok()
    }
}
