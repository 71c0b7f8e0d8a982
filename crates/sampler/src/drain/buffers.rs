//! Bounded pools of batch buffers.

use super::batch::{Batch, Stream};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::HashMap;
use std::sync::Arc;

/// Capacity in bytes beyond which a buffer is not kept.
const MOST_KEPT: usize = 1 << 20;

/// Buffer pool of one ring, as its drain thread sees it.
#[derive(Debug)]
pub(super) struct BufferPool {
    free: Receiver<Vec<u8>>,
    total: usize,
}

impl BufferPool {
    /// Returns an empty buffer, or `None` when the receiver holds all of them.
    pub(super) fn pop(&self) -> Option<Vec<u8>> {
        self.free.try_recv().ok()
    }

    /// Returns whether the receiver holds more than half of the buffers.
    pub(super) fn is_low(&self) -> bool {
        self.free.len() < self.total / 2
    }
}

/// Channels by which the buffers of each ring return to its pool.
type ReturnChannels = HashMap<(u32, Stream), Sender<Vec<u8>>>;

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
        if bytes.capacity() == 0 {
            // A batch without records has no buffer of a pool.
            return;
        }
        bytes.clear();
        // Larger than any batch of a drain thread: the buffer is not one of ours.
        if bytes.capacity() > MOST_KEPT {
            bytes = Vec::new();
        }
        if let Some(channel) = self.channels.get(&(cpu, stream)) {
            // A full pool: the buffer was one more, made for the last round.
            let _ = channel.try_send(bytes);
        }
    }
}

/// Makes the pools of all CPUs: for each, one of `samples` and one of `sideband` buffers. Buffers
/// take no memory before they are used.
pub(super) fn make(
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
        channels.insert((cpu, stream), channel);
        BufferPool { free, total: count }
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
