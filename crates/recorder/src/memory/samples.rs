//! Samples of resident memory for the file.

use std::io;

use rprof_memory::{FRAME_PREFIX, Owner, Share};
use rprof_records::{ContextMarker, Misc, SampleFields};
use rprof_sampler::Stream;

use super::Memory;
use crate::described::made_up_id;
use crate::distinct_stacks::DistinctStacks;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::merge::Released;

/// Names of the events in the file: memory at the end, at the peak, and all that was ever touched.
/// Readers show the first by default.
pub(crate) const EVENTS: [&str; 3] = ["resident-memory", "peak-memory", "touched-memory"];

/// Name of the frame for memory from before the recording.
const BEFORE: &str = "[resident before recording]";

/// Name of the frame for memory without a known fault.
const UNSEEN: &str = "[no fault seen]";

impl Memory {
    /// Returns the callchain entry of a named frame.
    fn frame(&self, name: &str) -> Option<u64> {
        self.names.address_of(&format!("{FRAME_PREFIX}{name}"))
    }

    /// Writes a share as a sample of the event with this index.
    pub(super) fn write(
        &self,
        event: usize,
        share: &Share,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        let born = self.born.get(&share.pid).copied().unwrap_or(0);
        let id = match event {
            0 => self.any_id,
            _ => made_up_id(event),
        };
        let fields = SampleFields {
            id,
            pid: share.pid,
            tid: share.pid,
            period: share.pages * self.ledger.page_bytes(),
            ..SampleFields::default()
        };
        let stack = match share.owner {
            Owner::Fault(stack) => self.stacks.get(stack),
            _ => None,
        };
        let (misc, mut fields) = match (stack, share.owner) {
            (Some(stack), _) => {
                let is_own = stack.pid == share.pid;
                let own = SampleFields {
                    id: fields.id,
                    pid: fields.pid,
                    tid: if is_own { stack.tid } else { share.pid },
                    // A child inherits memory that its parent touched before.
                    time: if is_own {
                        stack.time
                    } else {
                        stack.time.max(born)
                    },
                    period: fields.period,
                    ..DistinctStacks::fields(stack)
                };
                (stack.misc, own)
            }
            (None, owner) => {
                let name = if owner == Owner::Before {
                    BEFORE
                } else {
                    UNSEEN
                };
                let frame = self.frame(name).unwrap_or(0);
                let own = SampleFields {
                    time: self.last,
                    ip: frame,
                    callchain: vec![ContextMarker::USER.0, frame],
                    ..fields
                };
                (Misc::USER, own)
            }
        };
        if !fields.callchain.contains(&ContextMarker::USER.0) {
            fields.callchain.push(ContextMarker::USER.0);
        }
        let kind = String::from_utf8_lossy(self.ledger.kind_name(share.kind));
        fields.callchain.extend(self.frame(&kind));
        self.names.mark_used(share.pid, &fields.callchain);
        let mut bytes = Vec::new();
        if fields.encode(misc, &self.layout, &mut bytes).is_err() {
            // The record is too long: the outermost frame gives way to the kind.
            let at = fields.callchain.len().saturating_sub(2);
            fields.callchain.remove(at);
            (fields.encode(misc, &self.layout, &mut bytes)).map_err(io::Error::other)?;
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
