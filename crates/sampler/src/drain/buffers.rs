//! Bounded pools of batch buffers.

use super::batch::{Batch, Stream};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Capacity in bytes beyond which a buffer is not kept.
const MOST_KEPT: usize = 1 << 20;

/// Buffer pool of one ring, as its drain thread sees it.
#[derive(Debug)]
pub struct BufferPool {
    free: Receiver<Vec<u8>>,
    total: usize,
    /// Number of batches without records that the receiver has not returned.
    pub(super) watermarks: Arc<AtomicUsize>,
}

impl BufferPool {
    /// Returns an empty buffer, or `None` when the receiver holds all of them.
    pub fn pop(&self) -> Option<Vec<u8>> {
        self.free.try_recv().ok()
    }

    /// Returns whether the receiver holds more than half of the buffers.
    pub(super) fn is_low(&self) -> bool {
        self.free.len() < self.total / 2
    }
}

/// Channels by which the buffers of each ring return to its pool, and numbers of batches without any.
type ReturnChannels = HashMap<(u32, Stream), (Sender<Vec<u8>>, Arc<AtomicUsize>)>;

/// Returns buffers to the pool of the CPU and ring that they came from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recycler {
    channels: Arc<ReturnChannels>,
}

impl Recycler {
    /// Returns a batch's buffer, once its records are taken out of it.
    pub fn recycle(&self, batch: Batch) {
        let Batch {
            cpu,
            stream,
            mut bytes,
            ..
        } = batch;
        let Some((channel, watermarks)) = self.channels.get(&(cpu, stream)) else {
            return;
        };
        if bytes.capacity() == 0 {
            // A batch without records has no buffer of a pool. The last one of all was not counted.
            let one_less = |count: usize| count.checked_sub(1);
            let _ = watermarks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            return;
        }
        bytes.clear();
        // Larger than any batch of a drain thread: the buffer is not one of ours.
        if bytes.capacity() > MOST_KEPT {
            bytes = Vec::new();
        }
        // A full pool: the buffer was one more, made for the last round.
        let _ = channel.try_send(bytes);
    }
}

/// Makes the pools of all CPUs: for each, one of `samples` and one of `sideband` buffers. Buffers
/// take no memory before they are used.
///
/// A session has pools of its own; these are for batches that none sends.
pub fn make(
    cpus: &[u32],
    samples: usize,
    sideband: usize,
) -> (Vec<(BufferPool, BufferPool)>, Recycler) {
    let mut channels = ReturnChannels::new();
    let mut pool = |cpu, stream, count| {
        let (channel, free) = bounded(count);
        for _ in 0..count {
            let _ = channel.try_send(Vec::new());
        }
        let watermarks = Arc::default();
        channels.insert((cpu, stream), (channel, Arc::clone(&watermarks)));
        BufferPool {
            free,
            total: count,
            watermarks,
        }
    };
    let pools = cpus
        .iter()
        .map(|cpu| {
            (
                pool(*cpu, Stream::Samples, samples),
                pool(*cpu, Stream::Sideband, sideband),
            )
        })
        .collect();
    let channels = Arc::new(channels);
    (pools, Recycler { channels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_that_wait_are_counted_until_they_return() {
        let (pools, recycler) = make(&[3], 1, 1);
        let waits = Arc::clone(&pools[0].0.watermarks);
        waits.store(1, Ordering::Relaxed);
        for _ in 0..2 {
            recycler.recycle(Batch {
                cpu: 3,
                stream: Stream::Samples,
                bytes: Vec::new(),
                watermark: 7,
            });
            assert_eq!(waits.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn buffers_go_round_and_are_never_more() {
        let (pools, recycler) = make(&[3], 2, 1);
        let (samples, sideband) = &pools[0];
        let batch = |bytes| Batch {
            cpu: 3,
            stream: Stream::Samples,
            bytes,
            watermark: 0,
        };
        let (first, second) = (samples.pop().unwrap(), samples.pop().unwrap());
        assert!(samples.pop().is_none());
        assert!(sideband.pop().is_some(), "a pool of its own");
        recycler.recycle(batch(first));
        assert!(
            samples.pop().is_none(),
            "nothing was ever put into that one"
        );
        let mut second = second;
        second.extend([1; 100]);
        recycler.recycle(batch(second));
        let back = samples.pop().unwrap();
        assert!(back.is_empty() && back.capacity() >= 100);
        // More than the pool holds, or for an unknown CPU: dropped.
        for _ in 0..5 {
            recycler.recycle(batch(vec![1]));
        }
        assert!(samples.pop().is_some() && samples.pop().is_some() && samples.pop().is_none());
        recycler.recycle(Batch {
            cpu: 9,
            ..batch(vec![1])
        });
    }
}
