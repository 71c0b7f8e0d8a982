//! Takes a [`Look`] with as few batches of reads as possible: each is a hand-over to another thread.

use std::time::Duration;

use super::layout::{FrameKind, Layout};
use super::live::{self, Look, Segment, Track};
use super::snapshot::{Snapshot, around};
use crate::{MemoryRead, ProcessMemory};

/// Maximum duration of a read of frames that belong together.
const MAX_DURATION: Duration = Duration::from_micros(100);

/// Result of a watcher's last look.
#[derive(Debug, Default)]
pub(super) struct LastLook {
    position: [u64; 3],
    segments: Vec<Segment>,
    /// True if the look before found the same.
    pub(super) is_unchanged: bool,
}

/// First reads of a watcher's look: the places of the last looks. The calling thread makes the reads.
pub(super) struct FirstReads {
    /// Position of the last look, read before all others.
    position: Snapshot,
    look: Look,
    /// Position of this look.
    start: [u64; 3],
    has_read_more: bool,
}

impl FirstReads {
    /// Reads these places.
    pub(super) fn new(
        track: &Track,
        last: &LastLook,
        places: &[u64],
        memory: &mut dyn ProcessMemory,
    ) -> Self {
        let mut reads = match last.segments.is_empty() {
            true => Vec::new(),
            false => track.reads_of(&last.position),
        };
        let position = reads.len();
        reads.extend(track.reads_at(places));
        memory.read(&mut reads);
        let rest = reads.split_off(position);
        Self {
            position: Snapshot::new(reads),
            look: Look {
                time: memory.time(),
                snapshot: Snapshot::new(rest),
                ..Look::default()
            },
            start: [0; 3],
            has_read_more: false,
        }
    }

    /// Returns true if a place could be read.
    pub(super) fn has(&self, place: u64) -> bool {
        self.look.snapshot.u64(place).is_some()
    }

    /// Returns the time of the reads.
    pub(super) const fn began(&self) -> u64 {
        self.look.time
    }

    /// Follows the frames. `None` if the thread has moved.
    pub(super) fn walk(
        &mut self,
        track: &Track,
        memory: &mut dyn ProcessMemory,
    ) -> Option<Vec<Segment>> {
        let snapshot = &mut self.look.snapshot;
        self.has_read_more = track.start(snapshot, memory);
        self.start = track.position(snapshot)?;
        let segments = track.walk(snapshot, |snapshot, address| {
            self.has_read_more = true;
            snapshot.read_near(address, memory);
        });
        segments.first().filter(|inner| !inner.frames.is_empty())?;
        Some(segments)
    }

    /// Detects changes since the first reads, and reads these code objects. The look is partial if the
    /// thread has moved, `None` if it moved far.
    pub(super) fn confirm(
        self,
        track: &Track,
        segments: Vec<Segment>,
        mut proofs: Vec<MemoryRead>,
        last: &mut LastLook,
        memory: &mut dyn ProcessMemory,
    ) -> Option<Look> {
        let Self {
            mut look, start, ..
        } = self;
        // The thread has the frames of the last look, which were read between two equal positions.
        let is_unchanged = !self.has_read_more
            && start == last.position
            && track.position(&self.position) == Some(start)
            && segments == last.segments;
        last.is_unchanged = is_unchanged;
        if is_unchanged {
            if !proofs.is_empty() {
                memory.read(&mut proofs);
            }
        } else {
            // The position comes first: the frames above lie between two equal ones. Another
            // function may have the address of the current frame meanwhile.
            let mut reads = track.reads_of(&start);
            let frames = reads.len();
            reads.extend(live::frame_reads(&segments));
            let further = reads.len();
            reads.append(&mut proofs);
            memory.read(&mut reads);
            let end = memory.time().saturating_sub(look.time);
            let end = Duration::from_nanos(end) + memory.duration();
            proofs = reads.split_off(further);
            let again = Snapshot::new(reads.split_off(frames));
            let is_same = track.position(&Snapshot::new(reads)) == Some(start)
                && live::has(&track.layout, &segments, &again);
            if !is_same || end > MAX_DURATION {
                look.owner = track.owner(&look.snapshot);
                look.segments = live::unchanged(&track.layout, &segments, &again);
                (look.proofs, look.proven) = (proofs, memory.time());
                look.is_partial = true;
                return (!look.segments.is_empty()).then_some(look);
            }
            last.position = start;
            last.segments.clone_from(&segments);
        }
        look.owner = track.owner(&look.snapshot);
        look.segments = segments;
        look.proofs = proofs;
        look.proven = memory.time();
        look.is_new = !is_unchanged;
        look.is_repeat = is_unchanged;
        Some(look)
    }
}

/// Looks at the Python frames of a thread. Makes further reads together with the first ones, at
/// [`Look::time`], and returns them.
pub(super) fn look(
    layout: &Layout,
    track: Option<&Track>,
    frames: &[u64],
    further: Vec<MemoryRead>,
    memory: &mut dyn ProcessMemory,
) -> (Look, Vec<MemoryRead>) {
    let mut reads = track.map_or_else(Vec::new, Track::reads);
    let frames = match layout.kind {
        FrameKind::Objects => live::object_reads(frames),
        FrameKind::CFrames { .. } | FrameKind::Entries => around(frames),
    };
    reads.extend_from_slice(&frames);
    let len = reads.len();
    // Again, to detect changes. The further ones come last, so that the thread has little time to
    // move.
    if let Some(track) = track {
        reads.extend(track.position_reads());
        reads.extend(frames);
    }
    let both = reads.len();
    reads.extend(further);
    memory.read(&mut reads);
    let is_fast = memory.duration() <= MAX_DURATION;
    let time = memory.time();
    let further = reads.split_off(both);
    let second = Snapshot::new(reads.split_off(len));
    let mut look = Look {
        time,
        snapshot: Snapshot::new(reads),
        ..Look::default()
    };
    let Some(track) = track else {
        return (look, further);
    };
    let Some(start) = track.position(&look.snapshot).filter(|_| is_fast) else {
        return (look, further);
    };
    let mut has_read_more = match track.position(&second) {
        Some(end) if end == start => false,
        // It runs a native frame that is not in the sample.
        None if track.is_still(&start, &second) => true,
        _ => return (look, further),
    };
    let segments = track.walk(&mut look.snapshot, |snapshot, address| {
        has_read_more = true;
        snapshot.read_around(address, memory);
    });
    let is_same = match has_read_more {
        false => live::has(layout, &segments, &second),
        // Generators are elsewhere. The thread must still be where it was.
        true => {
            let position = track.reads_of(&start);
            let mut reads = position.clone();
            reads.extend(live::frame_reads(&segments));
            let len = reads.len();
            reads.extend(position);
            memory.read(&mut reads);
            let after = Snapshot::new(reads.split_off(len));
            let third = Snapshot::new(reads);
            track.position(&third) == Some(start)
                && track.position(&after) == Some(start)
                && live::has(layout, &segments, &third)
        }
    };
    if is_same {
        look.owner = track.owner(&look.snapshot);
        look.segments = segments;
    }
    (look, further)
}
