//! Bounded pools of batch buffers.

use super::batch::{Batch, Stream};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum capacity in bytes of a recycled buffer.
const MAX_KEPT: usize = 1 << 20;

/// Buffer pool of one ring.
#[derive(Debug)]
pub struct BufferPool {
    free: Receiver<Vec<u8>>,
    total: usize,
    loans: Loans,
    /// Bare watermarks that the receiver has not returned.
    pub(super) watermarks: Arc<AtomicUsize>,
}

impl BufferPool {
    /// Returns an empty buffer of this pool or of the reserve. `None` if the receiver holds all of
    /// them.
    pub fn pop(&self) -> Option<Vec<u8>> {
        let own = self.free.try_recv().ok();
        own.or_else(|| self.loans.borrow().then(Vec::new))
    }

    pub(super) fn is_low(&self) -> bool {
        self.free.len() < self.total / 2
    }
}

#[derive(Clone, Debug)]
struct Loans {
    reserve: Arc<AtomicUsize>,
    borrowed: Arc<AtomicUsize>,
}

impl Loans {
    /// Takes a buffer from the reserve. Returns false if it is empty.
    fn borrow(&self) -> bool {
        let taken = one_less(&self.reserve);
        if taken {
            self.borrowed.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn repay(&self) -> bool {
        let owes = one_less(&self.borrowed);
        if owes {
            self.reserve.fetch_add(1, Ordering::Relaxed);
        }
        owes
    }
}

fn one_less(count: &AtomicUsize) -> bool {
    let less = |count: usize| count.checked_sub(1);
    (count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)).is_ok()
}

#[derive(Debug)]
struct ReturnChannel {
    free: Sender<Vec<u8>>,
    loans: Loans,
    watermarks: Arc<AtomicUsize>,
}

type ReturnChannels = HashMap<(u32, Stream), ReturnChannel>;

/// Returns buffers to their pools. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recycler {
    channels: Arc<ReturnChannels>,
}

impl Recycler {
    /// Returns a batch's buffer.
    pub fn recycle(&self, batch: Batch) {
        let Batch {
            cpu,
            stream,
            mut bytes,
            ..
        } = batch;
        let Some(channel) = self.channels.get(&(cpu, stream)) else {
            return;
        };
        if bytes.capacity() == 0 {
            // The very last watermark was not counted.
            one_less(&channel.watermarks);
            return;
        }
        // The reserve's memory goes back to the system.
        if channel.loans.repay() {
            return;
        }
        bytes.clear();
        // Larger than any batch of a drain thread.
        if bytes.capacity() > MAX_KEPT {
            bytes = Vec::new();
        }
        // Extra buffer of the last round.
        let _ = channel.free.try_send(bytes);
    }
}

/// Creates for each CPU a pool of `samples` and one of `sideband` buffers, and `reserve` buffers
/// shared by all sample pools. Buffers use no memory before their first use, reserve buffers none
/// after it.
///
/// Sessions have their own pools.
pub fn make(
    cpus: &[u32],
    samples: usize,
    sideband: usize,
    reserve: usize,
) -> (Vec<(BufferPool, BufferPool)>, Recycler) {
    let mut channels = ReturnChannels::new();
    let (reserve, none) = (Arc::new(AtomicUsize::new(reserve)), Arc::default());
    let mut pool = |cpu, stream, count| {
        let (channel, free) = bounded(count);
        for _ in 0..count {
            let _ = channel.try_send(Vec::new());
        }
        let watermarks = Arc::default();
        let loans = Loans {
            reserve: Arc::clone(match stream {
                Stream::Samples => &reserve,
                Stream::Sideband => &none,
            }),
            borrowed: Arc::default(),
        };
        let returns = ReturnChannel {
            free: channel,
            loans: loans.clone(),
            watermarks: Arc::clone(&watermarks),
        };
        channels.insert((cpu, stream), returns);
        BufferPool {
            free,
            total: count,
            loans,
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
        let (pools, recycler) = make(&[3], 1, 1, 0);
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
        let (pools, recycler) = make(&[3], 2, 1, 0);
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
        for _ in 0..5 {
            recycler.recycle(batch(vec![1]));
        }
        assert!(samples.pop().is_some() && samples.pop().is_some() && samples.pop().is_none());
        recycler.recycle(Batch {
            cpu: 9,
            ..batch(vec![1])
        });
    }

    #[test]
    fn the_reserve_is_shared_and_its_memory_is_not_kept() {
        let (pools, recycler) = make(&[3, 4], 1, 1, 2);
        let own = pools[0].0.pop().unwrap();
        let mut borrowed = pools[0].0.pop().unwrap();
        borrowed.extend([1; 100]);
        assert!(pools[1].0.pop().is_some() && pools[1].0.pop().is_some());
        assert!(pools[0].0.pop().is_none() && pools[1].0.pop().is_none());
        assert!(pools[0].1.pop().is_some(), "sideband has no reserve");
        assert!(pools[0].1.pop().is_none());
        let batch = |cpu, bytes| Batch {
            cpu,
            stream: Stream::Samples,
            bytes,
            watermark: 0,
        };
        recycler.recycle(batch(3, borrowed));
        let mut again = pools[1].0.pop().unwrap();
        assert_eq!(again.capacity(), 0);
        again.push(1);
        let mut own = own;
        own.extend([1; 100]);
        recycler.recycle(batch(3, own));
        assert!(pools[0].0.pop().unwrap().capacity() >= 100);
        for _ in 0..2 {
            recycler.recycle(batch(4, vec![1]));
        }
        assert!(pools[0].0.pop().is_some() && pools[0].0.pop().is_some());
        assert!(pools[0].0.pop().is_none());
    }
}
