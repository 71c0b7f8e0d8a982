//! Takes a [`Look`] with as few batches of reads as possible: each is a hand-over to another thread.

use std::time::Duration;

use super::codes::Codes;
use super::layout::{FrameKind, Layout};
use super::live::{self, Look, Track};
use super::recent::RecentCodes;
use super::snapshot::{Snapshot, around};
use crate::{Names, ProcessMemory};

/// Maximum duration of a read of frames that belong together.
const MAX_DURATION: Duration = Duration::from_micros(100);

/// Looks at the Python frames of a thread, and at code objects together with them.
pub(super) fn look(
    layout: &Layout,
    track: Option<&Track<'_>>,
    frames: &[u64],
    (codes, recent): (&mut Codes, &mut RecentCodes),
    memory: &mut dyn ProcessMemory,
    names: &mut dyn Names,
) -> Look {
    let mut reads = track.map_or_else(Vec::new, Track::reads);
    let frames = match layout.kind {
        FrameKind::Objects => live::object_reads(frames),
        FrameKind::CFrames { .. } | FrameKind::Entries => around(frames),
    };
    reads.extend_from_slice(&frames);
    let len = reads.len();
    // Again, to detect changes. Code objects come last, so that the thread has little time to
    // move.
    if let Some(track) = track {
        reads.extend(track.position_reads());
        reads.extend(frames);
    }
    let both = reads.len();
    reads.extend(codes.reads(recent.get()));
    memory.read(&mut reads);
    let is_fast = memory.duration() <= MAX_DURATION;
    let time = memory.time();
    let proofs = reads.split_off(both);
    let second = Snapshot::new(reads.split_off(len));
    codes.take_in(&proofs, memory, names);
    let mut look = Look {
        time,
        segments: Vec::new(),
        snapshot: Snapshot::new(reads),
    };
    let Some(track) = track else {
        return look;
    };
    let Some(start) = track.position(&look.snapshot).filter(|_| is_fast) else {
        return look;
    };
    let mut has_read_more = match track.position(&second) {
        Some(end) if end == start => false,
        // It runs a native frame that is not in the sample.
        None if track.is_still(&start, &second) => true,
        _ => return look,
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
    look
}
