//! Records on their way to the file, in order, while the first of them waits.

use std::collections::VecDeque;
use std::io;

use rprof_sampler::Stream;

use crate::files::Files;
use crate::merge::Released;
use crate::unwinding::Unwinding;

/// Bytes that wait at most.
const MOST_BYTES: usize = 4 << 20;

/// Records that wait behind a sample whose stack is [not settled](Unwinding::settle) yet.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    records: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    time: u64,
    cpu: u32,
    stream: Stream,
    bytes: Vec<u8>,
    /// Whether it is one that is to be settled.
    is_held: bool,
}

impl Outgoing {
    /// Hands on the next record, if none waits and it need not wait itself.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn put(
        &mut self,
        released: &Released<'_>,
        is_held: bool,
        files: &mut Files,
    ) -> io::Result<()> {
        if self.records.is_empty() && !is_held {
            return files.put(released);
        }
        self.bytes += released.bytes.len();
        self.records.push_back(Waiting {
            time: released.time,
            cpu: released.cpu,
            stream: released.stream,
            bytes: released.bytes.to_vec(),
            is_held,
        });
        Ok(())
    }

    /// Hands on what needs not wait any more, where all records before `now` came; those that are too many
    /// do not wait. Answers up to which time everything was handed on.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn go_on(
        &mut self,
        now: u64,
        unwinding: &mut Option<Unwinding>,
        files: &mut Files,
    ) -> io::Result<u64> {
        if let (false, Some(unwinding)) = (self.records.is_empty(), unwinding.as_mut()) {
            unwinding.look_again();
        }
        while let Some(first) = self.records.front_mut() {
            if first.is_held
                && let Some(unwinding) = unwinding
            {
                let now = match self.bytes > MOST_BYTES {
                    true => u64::MAX,
                    false => now,
                };
                if !unwinding.settle(now, &mut first.bytes) {
                    return Ok(first.time);
                }
            }
            let Some(first) = self.records.pop_front() else {
                break;
            };
            // It may have grown.
            self.bytes = self.bytes.saturating_sub(first.bytes.len());
            files.put(&Released {
                time: first.time,
                cpu: first.cpu,
                stream: first.stream,
                bytes: &first.bytes,
            })?;
        }
        self.bytes = 0;
        Ok(now)
    }
}
