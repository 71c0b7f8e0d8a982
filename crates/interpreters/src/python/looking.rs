//! Takes a [`Look`] with as few batches of reads as possible: each is a hand-over to another thread.

use std::time::Duration;

use super::layout::{FrameKind, Layout};
use super::live::{self, Look, Segment, Track};
use super::snapshot::{Snapshot, around};
use crate::{MemoryRead, ProcessMemory};

/// Maximum duration of a read of frames that belong together.
const MAX_DURATION: Duration = Duration::from_micros(100);

/// Looks at the Python frames of a thread, with the places of the last look first: cheaper if this
/// thread makes the reads. `None` if the watched thread moved.
pub(super) fn look_directly(
    track: &Track,
    last: &[Segment],
    memory: &mut dyn ProcessMemory,
) -> Option<Look> {
    let mut look = Look::default();
    if !last.is_empty() {
        look.snapshot.read(track.reads_after(last), memory);
    }
    track.start(&mut look.snapshot, memory);
    look.time = look.snapshot.began()?;
    let start = track.position(&look.snapshot)?;
    look.segments = track.walk(&mut look.snapshot, |snapshot, address| {
        snapshot.read_near(address, memory);
    });
    look.segments
        .first()
        .filter(|inner| !inner.frames.is_empty())?;
    // Again, to detect changes. The position comes first: the frames above lie between two equal
    // ones. Another function may have the address of the current frame meanwhile.
    let mut reads = track.reads_of(&start);
    let len = reads.len();
    reads.extend(live::frame_reads(&look.segments));
    memory.read(&mut reads);
    let end = Duration::from_nanos(memory.time().saturating_sub(look.time)) + memory.duration();
    let again = Snapshot::new(reads.split_off(len));
    let position = Snapshot::new(reads);
    let is_same = track.position(&position) == Some(start)
        && live::has(&track.layout, &look.segments, &again);
    (is_same && end <= MAX_DURATION).then_some(look)
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
        look.segments = segments;
    }
    (look, further)
}
