//! [`SummedSamples`]: samples that stand for many page faults or allocations.

use std::io;
use std::sync::Arc;

use rprof_jit::InterpretedNames;
use rprof_memory::Step;
use rprof_records::{
    Attr, ContextMarker, Endian, Misc, RecordType, Sample, SampleFields, SampleLayout,
};
use rprof_sampler::Stream;
use rustc_hash::FxHashSet;

use crate::described::{made_up_id, without_payload};
use crate::output::{RotatingOutput, interpreted};
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;

/// Names of the events of memory over time: bytes that became part of the memory in use between two
/// snapshots, and bytes that left it. The address of such a sample is the time of the snapshot.
pub(crate) const OVER_TIME: [&str; 2] = ["memory-growth", "memory-release"];

/// The samples of one recorded event, which the recorder adds up, and the samples that it writes in
/// their place.
#[derive(Debug)]
pub(crate) struct SummedSamples {
    /// Layout of the samples after unwinding.
    layout: SampleLayout,
    /// Layout of the samples in their place.
    written: SampleLayout,
    ids: FxHashSet<u64>,
    any_id: u64,
    names: InterpretedNames,
    layouts: Arc<Layouts>,
    /// Processes with a mapping record for named frames.
    announced: FxHashSet<i32>,
}

impl SummedSamples {
    /// Adds up the samples with these ids. `attr` describes them after unwinding.
    pub(crate) fn of(
        ids: &[u64],
        attr: &Attr,
        names: &InterpretedNames,
        layouts: &Arc<Layouts>,
    ) -> SummedSamples {
        SummedSamples {
            layout: SampleLayout::new(attr, Endian::NATIVE),
            written: SampleLayout::new(&without_payload(attr), Endian::NATIVE),
            ids: ids.iter().copied().collect(),
            any_id: ids.first().copied().unwrap_or(0),
            names: names.clone(),
            layouts: Arc::clone(layouts),
            announced: FxHashSet::default(),
        }
    }

    /// Decodes a sample of the event; `None` for other records.
    pub(crate) fn sample<'a>(&'a self, released: &Released<'a>) -> Option<(Misc, Sample<'a>)> {
        if released.stream != Stream::Samples {
            return None;
        }
        let raw = (released.raw()).filter(|raw| raw.kind == RecordType::SAMPLE)?;
        let sample = Sample::parse(raw.body, &self.layout).ok()?;
        sample.id().filter(|id| self.ids.contains(id))?;
        Some((raw.misc, sample))
    }

    /// Writes the mapping of named frames before the first sample of a process, and after its exec.
    pub(crate) fn announce(
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

    /// Forgets the mapping of named frames of a process, at its exec.
    pub(crate) fn execute(&mut self, pid: i32) {
        self.announced.remove(&pid);
    }

    /// Returns the callchain entry of a named frame.
    pub(crate) fn frame(&self, name: &str) -> Option<u64> {
        self.names.address_of(name)
    }

    /// Writes a sample of the event with this index. A record that is too long loses the frame
    /// before the outermost one.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn put(
        &self,
        event: usize,
        misc: Misc,
        mut fields: SampleFields,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        fields.id = match event {
            0 => self.any_id,
            _ => made_up_id(event),
        };
        let is_marker = |address: &&u64| ContextMarker::is_marker(**address);
        let leaf = fields.callchain.iter().find(|address| !is_marker(address));
        fields.ip = leaf.copied().unwrap_or(fields.ip);
        self.names.mark_used(fields.pid, &fields.callchain);
        let mut bytes = Vec::new();
        if fields.encode(misc, &self.written, &mut bytes).is_err() {
            let before_outermost = fields.callchain.len().saturating_sub(2);
            if before_outermost < fields.callchain.len() {
                fields.callchain.remove(before_outermost);
            }
            bytes.clear();
            (fields.encode(misc, &self.written, &mut bytes)).map_err(io::Error::other)?;
        }
        let released = Released {
            time: fields.time,
            cpu: fields.cpu,
            stream: Stream::Samples,
            bytes: &bytes,
        };
        output.put(&released, None)
    }
}

/// Returns the index of a step's event, when the two events of [`OVER_TIME`] begin at `first`.
pub(crate) fn event_of<K>(step: &Step<K>, first: usize) -> usize {
    first + usize::from(!step.is_growth)
}
