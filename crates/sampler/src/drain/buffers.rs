//! The bounded stock of batch buffers.

use super::batch::{Batch, Stream};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes beyond which a buffer is not kept.
const MOST_KEPT: usize = 1 << 20;

/// The buffers of one ring, as its drain thread sees them.
#[derive(Debug)]
pub(super) struct Stock {
    free: Receiver<Vec<u8>>,
    total: usize,
}

impl Stock {
    /// A buffer, empty, or `None` when all are in the receiver's hands.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        self.free.try_recv().ok()
    }

    /// Whether the receiver has more than half of the buffers.
    pub(super) fn is_low(&self) -> bool {
        self.free.len() < self.total / 2
    }
}

/// Where the buffers of each ring go back to.
type Homes = HashMap<(u32, Stream), Sender<Vec<u8>>>;

/// Gives buffers back to the CPU and ring that they came from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recycler {
    homes: Arc<Homes>,
}

impl Recycler {
    /// Gives a batch's buffer back, once its records are taken out of it.
    pub fn recycle(&self, batch: Batch) {
        let Batch {
            cpu,
            stream,
            mut bytes,
            ..
        } = batch;
        if bytes.capacity() == 0 {
            // That of a batch that only told a watermark: it was no buffer of the stock.
            return;
        }
        bytes.clear();
        // Larger than any batch of a drain thread: it is somebody else's.
        if bytes.capacity() > MOST_KEPT {
            bytes = Vec::new();
        }
        if let Some(home) = self.homes.get(&(cpu, stream)) {
            // A full stock means a buffer made for the last round; it is not needed any more.
            let _ = home.try_send(bytes);
        }
    }
}

/// Makes the stocks of all CPUs: for each, one of `samples` and one of `sideband` buffers. Buffers take no
/// memory before they are used.
pub(super) fn make(
    cpus: &[u32],
    samples: usize,
    sideband: usize,
) -> (Vec<(Stock, Stock)>, Recycler) {
    let mut homes = Homes::new();
    let mut stock = |cpu, stream, count| {
        let (home, free) = bounded(count);
        for _ in 0..count {
            let _ = home.try_send(Vec::new());
        }
        homes.insert((cpu, stream), home);
        Stock { free, total: count }
    };
    let stocks = cpus
        .iter()
        .map(|cpu| {
            (
                stock(*cpu, Stream::Samples, samples),
                stock(*cpu, Stream::Sideband, sideband),
            )
        })
        .collect();
    let homes = Arc::new(homes);
    (stocks, Recycler { homes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round_and_are_never_more() {
        let (stocks, recycler) = make(&[3], 2, 1);
        let (samples, sideband) = &stocks[0];
        let batch = |bytes| Batch {
            cpu: 3,
            stream: Stream::Samples,
            bytes,
            watermark: 0,
        };
        let (first, second) = (samples.take().unwrap(), samples.take().unwrap());
        assert!(samples.take().is_none());
        assert!(sideband.take().is_some(), "a stock of its own");
        recycler.recycle(batch(first));
        assert!(
            samples.take().is_none(),
            "nothing was ever put into that one"
        );
        let mut second = second;
        second.extend([1; 100]);
        recycler.recycle(batch(second));
        let back = samples.take().unwrap();
        assert!(back.is_empty() && back.capacity() >= 100);
        // More than the stock holds, or for an unknown CPU: dropped.
        for _ in 0..5 {
            recycler.recycle(batch(vec![1]));
        }
        assert!(samples.take().is_some() && samples.take().is_some() && samples.take().is_none());
        recycler.recycle(Batch {
            cpu: 9,
            ..batch(vec![1])
        });
    }
}
