//! Traces: from AUX areas to pieces.
//!
//! A tracing unit (Intel PT, Arm SPE) writes into an AUX area beside the ring of its event. AUX
//! records in the ring say which bytes belong together. The drain thread reads the ring first, but
//! sends the pieces first, so the receiver of an AUX record already has its trace.
//!
//! The number of waiting pieces is limited. When the area is full, the unit stops and reports it in
//! the next AUX record (`PERF_AUX_FLAG_TRUNCATED`).

use crate::trace_area::TraceArea;
use crossbeam_channel::{Receiver, Sender, unbounded};

/// Maximum piece: 512 KiB, rounded to a multiple of all units' entries (24 bytes of BTS, 64 of
/// SPE).
const PIECE: usize = 2730 * 192;

/// Waiting pieces of a CPU: 2 MiB.
const MAX_WAITING: usize = 4;

/// Piece of the trace of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePiece {
    /// The traced CPU.
    pub cpu: u32,
    /// Index of the CPU in the list of recorded CPUs.
    pub index: u32,
    /// Offset of the piece in the CPU's whole trace.
    pub offset: u64,
    /// Trace data in the unit's format.
    pub bytes: Vec<u8>,
}

/// Receiver of the traces of all CPUs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    receivers: Vec<Receiver<TracePiece>>,
}

impl Traces {
    /// Takes the waiting pieces, ordered for each CPU.
    pub fn take(&self) -> impl Iterator<Item = TracePiece> + '_ {
        self.receivers.iter().flat_map(Receiver::try_iter)
    }

    /// Returns true if nothing is traced.
    pub fn is_empty(&self) -> bool {
        self.receivers.is_empty()
    }

    /// Adds a CPU with an area. `index` is its index in the list of recorded CPUs.
    pub(super) fn add(&mut self, cpu: u32, index: u32, area: Box<dyn TraceArea>) -> TraceDrain {
        let (sender, receiver) = unbounded();
        self.receivers.push(receiver);
        TraceDrain {
            cpu,
            index,
            area,
            sender,
        }
    }
}

#[derive(Debug)]
pub(super) struct TraceDrain {
    cpu: u32,
    index: u32,
    area: Box<dyn TraceArea>,
    sender: Sender<TracePiece>,
}

impl TraceDrain {
    /// Sends available data, as far as the receiver keeps up. Returns the number of bytes sent.
    pub(super) fn drain(&mut self) -> usize {
        // Only this thread adds to the channel.
        let free = MAX_WAITING.saturating_sub(self.sender.len());
        self.send(free)
    }

    pub(super) fn finish(&mut self) -> usize {
        self.send(self.area.size().div_ceil(PIECE))
    }

    pub(super) fn is_filling(&self) -> bool {
        self.sender.len() < MAX_WAITING && self.area.unread() > self.area.size() / 4
    }

    fn send(&mut self, pieces: usize) -> usize {
        let mut sent = 0;
        for _ in 0..pieces {
            let mut bytes = Vec::with_capacity(self.area.unread().min(PIECE));
            let offset = self.area.position();
            let read = self.area.read_into(&mut bytes, PIECE);
            if read == 0 {
                break;
            }
            let piece = TracePiece {
                cpu: self.cpu,
                index: self.index,
                offset,
                bytes,
            };
            if self.sender.send(piece).is_err() {
                break;
            }
            sent += read;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_area::made_up::MadeUpArea;

    fn area(end: u64) -> Box<dyn TraceArea> {
        Box::new(MadeUpArea {
            size: 4 << 20,
            position: 100,
            end,
        })
    }

    #[test]
    fn pieces_follow_each_other_and_wait_in_the_area_when_nobody_takes_them() {
        let mut traces = Traces::default();
        let end = 100 + 3 * (1 << 20) + 7;
        let mut drain = traces.add(5, 1, area(end));
        assert!(drain.is_filling());
        assert_eq!(drain.drain(), MAX_WAITING * PIECE);
        assert_eq!(drain.drain(), 0);
        assert!(!drain.is_filling());
        let mut pieces: Vec<TracePiece> = traces.take().collect();
        assert_eq!(pieces.len(), MAX_WAITING);
        assert_eq!(
            drain.drain() as u64,
            end - 100 - (MAX_WAITING * PIECE) as u64
        );
        pieces.extend(traces.take());
        let mut next = 100;
        for piece in &pieces {
            assert_eq!((piece.cpu, piece.index, piece.offset), (5, 1, next));
            assert_eq!(piece.bytes[0], (next % 251) as u8);
            next += piece.bytes.len() as u64;
        }
        assert_eq!(next, end);
    }

    #[test]
    fn the_end_sends_all_of_the_area_whoever_takes_it() {
        let mut traces = Traces::default();
        let mut drain = traces.add(0, 0, area(u64::MAX / 2));
        drain.drain();
        let sent = drain.finish();
        assert!(sent >= 4 << 20, "{sent}");
        assert!(
            sent <= (4 << 20) + PIECE,
            "an area that is still written to ends"
        );
    }
}
