//! [`DeferralQueue`]: sorted records that wait behind a sample without its stack.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rprof_records::ProcessEvent;
use rprof_sampler::Stream;

use super::layouts::Layouts;
use super::merge::Released;

/// Maximum waiting bytes on up to 16 CPUs.
const MAX_BYTES: usize = 4 << 20;

/// Maximum waiting bytes per CPU on larger machines: 4,000 samples per second of 300 bytes for 200
/// ms.
const BYTES_OF_CPU: usize = 256 << 10;

/// Receiver of the sorted records.
pub(crate) trait RecordSink {
    /// Takes the next record; `event` is its decoded form if it is a process event.
    ///
    /// # Errors
    /// Errors of writing.
    fn put(&mut self, released: &Released<'_>, event: Option<&ProcessEvent<'_>>) -> io::Result<()>;
}

/// Completes deferred samples, in the order of their deferral.
pub(crate) trait Settle {
    fn begin_round(&mut self);

    /// Completes the earliest deferred sample, `record`. Returns false if it needs later records,
    /// only if `may_wait`. All records before `now` were handled; [`u64::MAX`] means the end.
    fn settle(&mut self, now: u64, may_wait: bool, record: &mut Vec<u8>) -> bool;
}

/// Records that wait behind a sample whose stack is not [settled](Settle::settle).
#[derive(Debug)]
pub(crate) struct DeferralQueue {
    layouts: Arc<Layouts>,
    records: VecDeque<DeferredRecord>,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct DeferredRecord {
    time: u64,
    cpu: u32,
    stream: Stream,
    bytes: Vec<u8>,
    /// True for a sample to be settled itself.
    is_deferred: bool,
}

impl DeferralQueue {
    pub(crate) fn new(layouts: Arc<Layouts>, cpus: usize) -> DeferralQueue {
        DeferralQueue {
            layouts,
            records: VecDeque::new(),
            bytes: 0,
            most_bytes: MAX_BYTES.max(BYTES_OF_CPU * cpus),
        }
    }

    /// Writes the next record, or queues it if it or an earlier record must wait.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn push(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        is_deferred: bool,
        output: &mut impl RecordSink,
    ) -> io::Result<()> {
        if self.records.is_empty() && !is_deferred {
            return output.put(released, event);
        }
        self.bytes += released.bytes.len();
        self.records.push_back(DeferredRecord {
            time: released.time,
            cpu: released.cpu,
            stream: released.stream,
            bytes: released.bytes.to_vec(),
            is_deferred,
        });
        Ok(())
    }

    /// Writes all records that need not wait, or that exceed the limit, after all records before
    /// `now` were pushed. Returns the time up to which the output is complete.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn flush_ready(
        &mut self,
        now: u64,
        mut settler: Option<&mut impl Settle>,
        output: &mut impl RecordSink,
    ) -> io::Result<u64> {
        if let (false, Some(settler)) = (self.records.is_empty(), &mut settler) {
            settler.begin_round();
        }
        while let Some(first) = self.records.front_mut() {
            if first.is_deferred
                && let Some(settler) = &mut settler
            {
                let may_wait = self.bytes <= self.most_bytes;
                let before = first.bytes.len();
                let is_settled = settler.settle(now, may_wait, &mut first.bytes);
                self.bytes = (self.bytes + first.bytes.len()).saturating_sub(before);
                if !is_settled {
                    return Ok(first.time);
                }
            }
            let Some(first) = self.records.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(first.bytes.len());
            let released = Released {
                time: first.time,
                cpu: first.cpu,
                stream: first.stream,
                bytes: &first.bytes,
            };
            let event = self.layouts.process_event(&released);
            output.put(&released, event.as_ref())?;
        }
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rprof_records::{Attr, Endian, SampleLayout};

    #[derive(Default)]
    struct Written(Vec<(u64, Vec<u8>)>);

    impl RecordSink for Written {
        fn put(&mut self, released: &Released<'_>, _: Option<&ProcessEvent<'_>>) -> io::Result<()> {
            self.0.push((released.time, released.bytes.to_vec()));
            Ok(())
        }
    }

    /// Settles each sample `wait` after its time, which is its first byte, and appends a byte.
    struct After {
        wait: u64,
        rounds: u32,
    }

    impl Settle for After {
        fn begin_round(&mut self) {
            self.rounds += 1;
        }

        fn settle(&mut self, now: u64, may_wait: bool, record: &mut Vec<u8>) -> bool {
            let is_over = !may_wait || now >= u64::from(record[0]) + self.wait;
            if is_over {
                record.push(0xff);
            }
            is_over
        }
    }

    fn queue() -> DeferralQueue {
        let layout = SampleLayout::new(&Attr::default(), Endian::NATIVE);
        DeferralQueue::new(
            Arc::new(Layouts {
                samples: layout.clone(),
                sideband: layout,
            }),
            1,
        )
    }

    fn released(bytes: &[u8]) -> Released<'_> {
        Released {
            time: bytes[0].into(),
            cpu: 0,
            stream: Stream::Samples,
            bytes,
        }
    }

    proptest! {
        /// For any choice of deferred samples and flushes, all records come out once, sorted and
        /// completed, and never before a promised time.
        #[test]
        fn order_is_kept(
            deferred in proptest::collection::vec(any::<bool>(), 0..100),
            flushes in proptest::collection::vec(any::<bool>(), 100),
            wait in 0u64..20,
        ) {
            let mut settler = After { wait, rounds: 0 };
            let (mut queue, mut out) = (queue(), Written::default());
            for (n, is_deferred) in deferred.iter().enumerate() {
                let record = [n as u8, 7];
                queue.push(&released(&record), None, *is_deferred, &mut out).unwrap();
                if flushes[n] {
                    let promised = queue.flush_ready(n as u64, Some(&mut settler), &mut out).unwrap();
                    prop_assert!(promised <= n as u64 && out.0.len() as u64 >= promised);
                }
            }
            let promised = queue.flush_ready(u64::MAX, Some(&mut settler), &mut out).unwrap();
            prop_assert_eq!(promised, u64::MAX);
            let expected: Vec<_> = deferred.iter().enumerate().map(|(n, is_deferred)| {
                let mut bytes = vec![n as u8, 7];
                bytes.extend(is_deferred.then_some(0xff));
                (n as u64, bytes)
            }).collect();
            prop_assert_eq!(out.0, expected);
        }
    }

    #[test]
    fn too_many_bytes_do_not_wait() {
        let mut settler = After {
            wait: u64::MAX - 255,
            rounds: 0,
        };
        let (mut queue, mut out) = (queue(), Written::default());
        let long = vec![1; 1 << 20];
        for n in 1..=4 {
            queue.push(&released(&long), None, true, &mut out).unwrap();
            let promised = queue.flush_ready(5, Some(&mut settler), &mut out).unwrap();
            assert_eq!((out.0.len(), promised), (0, 1), "after {n}");
        }
        queue.push(&released(&[2]), None, false, &mut out).unwrap();
        let promised = queue.flush_ready(5, Some(&mut settler), &mut out).unwrap();
        // One record was written, and the rest is below the limit.
        assert_eq!((out.0.len(), promised), (1, 1));
        assert_eq!(settler.rounds, 5);
    }
}
