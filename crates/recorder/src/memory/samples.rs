//! Samples of resident memory for the file.

use std::io;

use rprof_memory::{FRAME_PREFIX, Owner, Share, Step};
use rprof_records::{ContextMarker, Misc, SampleFields};

use super::Memory;
use crate::distinct_stacks::{DistinctStacks, KnownStack};
use crate::output::RotatingOutput;
use crate::summed::{OVER_TIME, event_of};

/// Names of the events in the file: memory at the end, at the peak, and all that was ever touched;
/// then memory over time. Readers show the first by default.
pub(crate) const EVENTS: [&str; 5] = [
    "resident-memory",
    "peak-memory",
    "touched-memory",
    OVER_TIME[0],
    OVER_TIME[1],
];

/// Index of the first event of memory over time.
const FIRST_OVER_TIME: usize = 3;

/// Name of the frame for memory without a known fault.
const UNSEEN: &str = "[no fault seen]";

/// Owner of a number of pages, without the number.
pub(super) type ShareKey = (i32, Owner, rprof_memory::KindId);

impl Memory {
    /// Returns the callchain entry of a named frame.
    fn frame(&self, name: &str) -> Option<u64> {
        self.summed.frame(&format!("{FRAME_PREFIX}{name}"))
    }

    fn stack_of(&self, owner: Owner) -> Option<&KnownStack> {
        match owner {
            Owner::Fault(stack) => self.stacks.get(stack),
            _ => None,
        }
    }

    /// Returns a time when the code on the stack of a share was mapped.
    fn time_of(&self, (pid, owner, _): ShareKey) -> u64 {
        match self.stack_of(owner) {
            Some(stack) if stack.pid == pid => stack.time,
            // A child inherits memory that its parent touched before.
            Some(stack) => (stack.time).max(self.born.get(&pid).copied().unwrap_or(0)),
            None => self.last,
        }
    }

    /// Takes a snapshot of the resident pages, if it is due. [`write_steps`](Self::write_steps)
    /// writes it.
    pub(super) fn take_snapshot(&mut self, time: u64) {
        if self.end.is_none() && self.history.is_due(time, self.ledger.resident()) {
            self.take_snapshot_of(&self.ledger.live(), time);
        }
    }

    pub(super) fn take_snapshot_of(&mut self, shares: &[Share], time: u64) {
        let now = (shares.iter())
            .map(|share| ((share.pid, share.owner, share.kind), share.pages))
            .collect();
        let mut history = std::mem::take(&mut self.history);
        let steps = history.take(time, now, |key| self.time_of(*key));
        self.history = history;
        self.steps
            .extend(steps.into_iter().map(|step| (time, step)));
    }

    /// Writes the changes between snapshots.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn write_steps(&mut self, output: &mut RotatingOutput) -> io::Result<()> {
        for (snapshot, step) in std::mem::take(&mut self.steps) {
            let Step { key, amount, .. } = step;
            let event = event_of(&step, FIRST_OVER_TIME);
            let (misc, fields) = self.fields(key, amount);
            let fields = SampleFields {
                time: step.since,
                addr: snapshot,
                ..fields
            };
            self.summed.put(event, misc, fields, output)?;
        }
        Ok(())
    }

    /// Writes a share as a sample of the event with this index.
    pub(super) fn write(
        &self,
        event: usize,
        share: &Share,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        let (misc, fields) = self.fields((share.pid, share.owner, share.kind), share.pages);
        self.summed.put(event, misc, fields, output)
    }

    /// Returns the sample for a number of pages.
    fn fields(&self, key: ShareKey, pages: u64) -> (Misc, SampleFields) {
        let (pid, owner, kind) = key;
        let (misc, mut fields) = match self.stack_of(owner) {
            Some(stack) => {
                let tid = if stack.pid == pid { stack.tid } else { pid };
                let fields = SampleFields {
                    tid,
                    ..DistinctStacks::fields(stack)
                };
                (stack.misc, fields)
            }
            None => {
                let name = match owner {
                    Owner::Before => rprof_memory::RESIDENT_BEFORE,
                    _ => UNSEEN,
                };
                let frame = self.frame(name).unwrap_or(0);
                let fields = SampleFields {
                    tid: pid,
                    ip: frame,
                    callchain: vec![ContextMarker::USER.0, frame],
                    ..SampleFields::default()
                };
                (Misc::USER, fields)
            }
        };
        if !fields.callchain.contains(&ContextMarker::USER.0) {
            fields.callchain.push(ContextMarker::USER.0);
        }
        let kind = String::from_utf8_lossy(self.ledger.kind_name(kind));
        fields.callchain.extend(self.frame(&kind));
        let fields = SampleFields {
            pid,
            time: self.time_of(key),
            period: pages * self.ledger.page_bytes(),
            ..fields
        };
        (misc, fields)
    }
}
