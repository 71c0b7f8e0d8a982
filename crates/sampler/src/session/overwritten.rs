//! [`OverwrittenRings`]: the last samples of each CPU.

use crate::open::OverwrittenRing;
use rprof_records::RawBytes;

/// Rings in which later samples overwrite earlier ones, until they are taken.
#[derive(Debug, Default)]
pub(super) struct OverwrittenRings {
    rings: Vec<OverwrittenRing>,
}

impl OverwrittenRings {
    pub(super) fn new(rings: Vec<OverwrittenRing>) -> OverwrittenRings {
        OverwrittenRings { rings }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Size in bytes of each ring, if there is one.
    pub(super) fn ring_bytes(&self) -> Option<usize> {
        self.rings.first().map(|ring| ring.ring.size())
    }

    /// Bytes of all rings.
    pub(super) fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.ring.size()).sum()
    }

    /// Takes the records that were not taken before; `put` gets those of one CPU after the other, the oldest
    /// first.
    pub(super) fn take(&mut self, mut put: impl FnMut(RawBytes<'_>)) {
        // All of them, so that they end at one moment.
        for ring in &self.rings {
            // Before Linux 4.7 there is no pause: what is overwritten meanwhile is left out.
            ring.event.pause_output(true).ok();
        }
        for ring in &mut self.rings {
            ring.ring.take(&mut put);
        }
        for ring in &self.rings {
            ring.event.pause_output(false).ok();
        }
    }
}
