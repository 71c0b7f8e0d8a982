use crate::open::OverwrittenRing;
use rprof_records::RawBytes;

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

    pub(super) fn ring_bytes(&self) -> Option<usize> {
        self.rings.first().map(|ring| ring.ring.size())
    }

    pub(super) fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.ring.size()).sum()
    }

    /// Passes the new records to `put`, CPU by CPU, oldest first.
    pub(super) fn take(&mut self, mut put: impl FnMut(RawBytes<'_>)) {
        // All rings are paused first, so that they end at the same time.
        for ring in &self.rings {
            // Before Linux 4.7 there is no pause; records overwritten meanwhile are skipped.
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
