//! [`Look`]: the Python frames of a thread during a read, which is after the sample.

use std::ops::Range;

use super::codes::TYPE;
use super::current::EvalFrame;
use super::layout::{FRAME_BYTES, FrameKind, Layout, TAGS};
use super::looks::Part;
use super::snapshot::{PAGE, Snapshot, ranges};
use crate::{MemoryRead, ProcessMemory};

/// Maximum number of Python frames of one native frame.
const MAX_CHAIN: usize = 4096;

/// Number of frames that are compared before and after. The outer ones wait for these.
const COMPARED: usize = 64;

/// Maximum number of native frames that a look follows from the innermost one on.
const MAX_SEGMENTS: usize = 24;

/// Maximum number of `_PyCFrame` in the reads of a position.
const MAX_CFRAMES: usize = 8;

/// Bytes on both sides of a frame of an earlier look: callers and called functions.
const AROUND: u64 = 128;

/// Bytes of a `_PyCFrame`.
const CFRAME_BYTES: usize = 24;

/// Maximum bytes of the native stack in a look.
const MAX_STACK: u64 = 12 << 10;

/// Bytes below the sampled native frames that newer ones use.
const NEWER: u64 = 2048;

/// Bytes below the sampled native frames that may belong to the native stack.
const DEEPER: u64 = 64 << 10;

/// `FRAME_OWNED_BY_GENERATOR`
const BY_GENERATOR: u8 = 1;

/// `FRAME_OWNED_BY_CSTACK` of 3.12 and 3.13, `FRAME_OWNED_BY_INTERPRETER` of 3.14.
const BY_NATIVE: u8 = 3;

/// Python frame in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveFrame {
    pub(super) address: u64,
    pub(super) code: u64,
    /// True if the frame is part of a generator or coroutine, and moves with it.
    pub(super) is_generator: bool,
}

/// Python frames of one native frame, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) part: Part,
    pub(super) frames: Vec<LiveFrame>,
}

/// The frames of a thread at one moment.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Time of the read. It is as good for each earlier sample.
    pub(super) time: u64,
    /// Innermost first. Empty if the thread moved during the read.
    pub(super) segments: Vec<Segment>,
    /// Number of the thread by its state, which another thread may have got; 0 if unknown.
    pub(super) owner: u64,
    pub(super) snapshot: Snapshot,
    /// Reads of code objects, and their time.
    pub(super) proofs: Vec<MemoryRead>,
    pub(super) proven: u64,
    /// True until it counts against callers, if it differs from the look before.
    pub(super) is_new: bool,
    /// True if the look before found the same.
    pub(super) is_repeat: bool,
    /// True if inner frames changed during the read, and only outer ones are known.
    pub(super) is_partial: bool,
}

impl Look {
    /// Returns the frame at an address, if the look has it. Also returns whether it is the outermost
    /// one of a native frame whose caller runs the frame `outer`. `None` if it belonged to another
    /// native frame.
    pub(super) fn frame(
        &self,
        layout: &Layout,
        address: u64,
        (eval, outer): (&EvalFrame, u64),
    ) -> Option<(LiveFrame, Option<bool>)> {
        let found = frame_at(layout, address, &self.snapshot)?;
        let native = eval.sp.saturating_sub(DEEPER)..eval.cfa.saturating_add(DEEPER);
        let is_outermost = match found.is_marked {
            true => (found.previous == outer).then_some(true),
            false if eval.contains(found.previous) => Some(true),
            false => (!native.contains(&found.previous)).then_some(false),
        };
        Some((found.frame, is_outermost))
    }
}

/// Position of a thread's frames, as far as a sample tells.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub(super) layout: Layout,
    /// Address of the thread state.
    pub(super) state: u64,
    /// Distance of each native frame's end from its `_PyCFrame`, or from the frame before its
    /// outermost Python frame.
    below: u64,
    /// Addresses of the sampled native frames' `_PyCFrame`, or of those frames.
    cframes: Vec<u64>,
    /// Part of the native stack to read.
    window: Range<u64>,
    /// Addresses that may belong to the native stack.
    native: Range<u64>,
}

impl Track {
    pub(super) fn new(
        layout: &Layout,
        state: u64,
        below: u64,
        evals: &[EvalFrame],
    ) -> Option<Self> {
        let (inner, outer) = (evals.first()?, evals.last()?);
        let start = inner.sp.saturating_sub(NEWER);
        Some(Self {
            layout: *layout,
            state,
            below,
            cframes: (evals.iter())
                .map(|eval| eval.cfa.wrapping_sub(below))
                .collect(),
            window: start..outer.cfa.min(start.saturating_add(MAX_STACK)),
            native: inner.sp.saturating_sub(DEEPER)..outer.cfa,
        })
    }

    /// Returns a read of the thread state, from the innermost frame to the number of the thread.
    fn state_read(&self) -> MemoryRead {
        let (one, other) = (self.layout.thread, self.layout.thread_id);
        let len = one.abs_diff(other).saturating_add(8);
        let start = self.state.wrapping_add(one.min(other));
        MemoryRead::new(start, usize::try_from(len).unwrap_or(8))
    }

    /// Returns the track of the thread with another state. It finds the ends of native frames by
    /// the frames on their stack.
    pub(super) fn of_state(&self, state: u64) -> Self {
        Self {
            state,
            cframes: Vec::new(),
            window: 0..0,
            native: 0..0,
            ..*self
        }
    }

    /// Follows the list of threads to younger ones. Returns their states and numbers, oldest first.
    /// The states of the last time are read together.
    pub(super) fn younger(
        &self,
        last: &[u64],
        limit: usize,
        memory: &mut dyn ProcessMemory,
    ) -> Vec<(u64, u64)> {
        let layout = &self.layout;
        let words = [layout.younger, layout.older, layout.thread_id];
        let len = words.into_iter().max().unwrap_or(0).saturating_add(8) as usize;
        let states = std::iter::once(&self.state).chain(last);
        let mut reads: Vec<MemoryRead> = states.map(|state| MemoryRead::new(*state, len)).collect();
        memory.read(&mut reads);
        let word = |read: &MemoryRead, at: u64| read.u64(at as usize);
        let mut found = Vec::new();
        let mut at = self.state;
        while let Some(state) = reads.iter().find(|read| read.address == at) {
            let Some(younger) = word(state, layout.younger).filter(|next| *next != 0) else {
                break;
            };
            if found.len() >= limit {
                break;
            }
            if !reads.iter().any(|read| read.address == younger) {
                let mut more = [MemoryRead::new(younger, len)];
                memory.read(&mut more);
                reads.extend(more);
            }
            let next = reads.iter().find(|read| read.address == younger);
            // Both ends of a link must agree: threads begin and end meanwhile.
            let next = next.filter(|next| word(next, layout.older) == Some(at));
            let Some(owner) = next.and_then(|next| word(next, layout.thread_id)) else {
                break;
            };
            found.push((younger, owner));
            at = younger;
        }
        found
    }

    /// Returns the number of the thread that has the thread state; 0 if a snapshot has not got it.
    pub(super) fn owner(&self, snapshot: &Snapshot) -> u64 {
        let at = self.state.wrapping_add(self.layout.thread_id);
        snapshot.u64(at).unwrap_or(0)
    }

    /// Returns the reads for a look: the thread state and the native stack.
    pub(super) fn reads(&self) -> Vec<MemoryRead> {
        let mut reads = vec![self.state_read()];
        reads.extend(ranges(vec![(self.window.start, self.window.end)]));
        reads
    }

    /// Returns the reads for the [position](Self::position) if the thread runs a sampled native
    /// frame.
    pub(super) fn position_reads(&self) -> Vec<MemoryRead> {
        let state = self.state.wrapping_add(self.layout.thread);
        let mut reads = vec![MemoryRead::new(state, 8)];
        if let FrameKind::CFrames { .. } = self.layout.kind {
            let cframes = self.cframes.iter().take(MAX_CFRAMES);
            reads.extend(cframes.map(|cframe| MemoryRead::new(*cframe, CFRAME_BYTES)));
        }
        reads
    }

    /// Returns the reads for this position.
    pub(super) fn reads_of(&self, position: &[u64; 3]) -> Vec<MemoryRead> {
        let state = self.state.wrapping_add(self.layout.thread);
        let [top, ..] = *position;
        let mut reads = vec![MemoryRead::new(state, 8)];
        if let FrameKind::CFrames { .. } = self.layout.kind {
            reads.push(MemoryRead::new(top, CFRAME_BYTES));
        }
        reads
    }

    /// Returns true if the thread state has not changed since a position.
    pub(super) fn is_still(&self, position: &[u64; 3], snapshot: &Snapshot) -> bool {
        let [top, ..] = *position;
        snapshot.u64(self.state.wrapping_add(self.layout.thread)) == Some(top)
    }

    /// Reads the first steps to the current frame, as far as a snapshot has not got them. Returns
    /// true if it made reads.
    pub(super) fn start(&self, snapshot: &mut Snapshot, memory: &mut dyn ProcessMemory) -> bool {
        let state = self.state.wrapping_add(self.layout.thread);
        let Some(top) = snapshot.u64(state) else {
            return false;
        };
        let mut has_read = false;
        if snapshot.bytes::<FRAME_BYTES>(top).is_none() {
            snapshot.read_near(top, memory);
            has_read = true;
        }
        if let FrameKind::CFrames { current, .. } = self.layout.kind
            && let Some(frame) = snapshot.u64(top.wrapping_add(current))
            && snapshot.bytes::<FRAME_BYTES>(frame).is_none()
        {
            snapshot.read_near(frame, memory);
            has_read = true;
        }
        has_read
    }

    /// Returns the addresses of frames, and of what links native frames: most of them still run in
    /// the next look.
    pub(super) fn places(&self, segments: &[Segment]) -> Vec<u64> {
        let frames = segments.iter().flat_map(|segment| &segment.frames);
        let frames = frames.map(|frame| frame.address);
        let linked = (segments.iter()).map(|segment| segment.part.native.wrapping_sub(self.below));
        linked.chain(frames).take(COMPARED).collect()
    }

    /// Returns reads of the thread state, and of places with their surroundings.
    pub(super) fn reads_at(&self, places: &[u64]) -> Vec<MemoryRead> {
        let mut reads = vec![self.state_read()];
        reads.extend(ranges(places.iter().map(|place| near(*place)).collect()));
        reads
    }

    /// Returns the words that change when the thread runs another frame.
    pub(super) fn position(&self, snapshot: &Snapshot) -> Option<[u64; 3]> {
        let top = snapshot.u64(self.state.wrapping_add(self.layout.thread))?;
        Some(match self.layout.kind {
            FrameKind::CFrames {
                current, previous, ..
            } => [
                top,
                snapshot.u64(top.checked_add(current)?)?,
                snapshot.u64(top.checked_add(previous)?)?,
            ],
            FrameKind::Entries | FrameKind::Objects => [top, top, 0],
        })
    }

    /// Follows the frames from the innermost native frame to the outermost one. `more` reads the
    /// memory around an address that the snapshot has not.
    pub(super) fn walk(
        &self,
        snapshot: &mut Snapshot,
        mut more: impl FnMut(&mut Snapshot, u64),
    ) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut word = |snapshot: &mut Snapshot, address: u64| {
            if snapshot.u64(address).is_none() {
                more(snapshot, address);
            }
            snapshot.u64(address)
        };
        let Some(mut at) = word(snapshot, self.state.wrapping_add(self.layout.thread)) else {
            return segments;
        };
        let mut left = MAX_CHAIN;
        while segments.len() < MAX_SEGMENTS {
            let start = match self.layout.kind {
                FrameKind::CFrames { current, .. } => word(snapshot, at.wrapping_add(current)),
                FrameKind::Entries | FrameKind::Objects => Some(at),
            };
            let outer = segments.last().map(|segment| segment.part.outer);
            let Some(start) = start.filter(|start| outer.is_none_or(|outer| outer == *start))
            else {
                break;
            };
            let chain = chain(&self.layout, start, &self.native, left, snapshot, &mut word);
            left = left.saturating_sub(chain.frames.len());
            let (native, outer) = match (chain.end, self.layout.kind) {
                (Some(End::Marked(outer)), _) => (at, outer),
                (Some(End::InNative(entry)), kind) => {
                    let link = entry.wrapping_add(self.layout.frame.previous as u64);
                    let Some(outer) = word(snapshot, link) else {
                        break;
                    };
                    match kind {
                        FrameKind::CFrames { .. } => (at, outer),
                        FrameKind::Entries | FrameKind::Objects => (entry, outer),
                    }
                }
                (None, _) => break,
            };
            let native = native.wrapping_add(self.below);
            segments.push(Segment {
                part: Part {
                    native,
                    outer,
                    function: Part::ANY,
                },
                frames: chain.frames,
            });
            if outer == 0 {
                break;
            }
            at = match self.layout.kind {
                FrameKind::CFrames { previous, .. } => {
                    match word(snapshot, at.wrapping_add(previous)) {
                        Some(cframe) => cframe,
                        None => break,
                    }
                }
                FrameKind::Entries | FrameKind::Objects => outer,
            };
        }
        segments
    }
}

/// Returns the range of a frame with its surroundings. Other pages may be unmapped, and an unreadable
/// place ends a call for several reads.
fn near(address: u64) -> (u64, u64) {
    let page = address - address % PAGE;
    let end = address.saturating_add(FRAME_BYTES as u64);
    let further = end.saturating_add(AROUND).min(page.saturating_add(PAGE));
    (address.saturating_sub(AROUND).max(page), further.max(end))
}

/// Python frames from one address on, innermost first.
#[derive(Clone, Debug, Default)]
struct Chain {
    frames: Vec<LiveFrame>,
    /// `None` if the chain stops before the end of its native frame.
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The last frame is marked as the outermost one, and the next outer native frame's current
    /// one follows.
    Marked(u64),
    /// A frame at this address lies in the native frame.
    InNative(u64),
}

struct FrameInMemory {
    frame: LiveFrame,
    previous: u64,
    is_marked: bool,
    /// True for the frame before the outermost Python frame, which lies in the native frame.
    is_entry: bool,
}

/// Decodes the frame at an address.
fn frame_at(layout: &Layout, address: u64, snapshot: &Snapshot) -> Option<FrameInMemory> {
    let bytes = snapshot.bytes::<FRAME_BYTES>(address)?;
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let owner = layout.frame.owner.and_then(|at| bytes.get(at));
    let mark = match layout.kind {
        FrameKind::CFrames { is_entry, .. } => is_entry.and_then(|at| bytes.get(at)),
        FrameKind::Objects | FrameKind::Entries => None,
    };
    Some(FrameInMemory {
        frame: LiveFrame {
            address,
            code: word(layout.frame.code)? & !TAGS,
            is_generator: owner == Some(&BY_GENERATOR),
        },
        previous: word(layout.frame.previous)?,
        is_marked: mark.is_some_and(|byte| *byte != 0),
        is_entry: owner == Some(&BY_NATIVE) && mark.is_none(),
    })
}

/// Returns true if a snapshot has these frames unchanged.
pub(super) fn has(layout: &Layout, segments: &[Segment], snapshot: &Snapshot) -> bool {
    let pairs = segments.iter().flat_map(|segment| {
        let previous = segment.frames.iter().skip(1).map(|frame| frame.address);
        segment.frames.iter().zip(previous.map(Some).chain([None]))
    });
    (pairs.take(COMPARED)).all(|(frame, previous)| has_frame(layout, frame, previous, snapshot))
}

fn has_frame(layout: &Layout, frame: &LiveFrame, previous: Option<u64>, now: &Snapshot) -> bool {
    let again = frame_at(layout, frame.address, now);
    again.is_some_and(|again| {
        let is_previous = previous.is_none_or(|previous| again.previous == previous);
        again.frame == *frame && is_previous
    })
}

/// Returns the outer frames that a snapshot has unchanged, as parts of their native frames. Nothing
/// if the outermost native frame is missing.
pub(super) fn unchanged(
    layout: &Layout,
    segments: &[Segment],
    snapshot: &Snapshot,
) -> Vec<Segment> {
    let mut found: Vec<Segment> = Vec::new();
    let is_whole = segments.last().is_some_and(|last| last.part.outer == 0);
    for segment in segments.iter().rev().filter(|_| is_whole) {
        let mut previous = None;
        let outer = segment.frames.iter().rev().take_while(|frame| {
            let previous = previous.replace(frame.address);
            has_frame(layout, frame, previous, snapshot)
        });
        let frames = segment.frames.len() - outer.count();
        let kept = segment.frames.get(frames..).unwrap_or_default();
        if !kept.is_empty() {
            found.insert(
                0,
                Segment {
                    part: segment.part,
                    frames: kept.to_vec(),
                },
            );
        }
        if frames > 0 {
            break;
        }
    }
    found
}

/// Returns reads of the frames of a look.
pub(super) fn frame_reads(segments: &[Segment]) -> Vec<MemoryRead> {
    let frames = segments.iter().flat_map(|segment| &segment.frames);
    let frames = frames.take(COMPARED);
    let range = |frame: &LiveFrame| {
        let end = frame.address.saturating_add(FRAME_BYTES as u64);
        (frame.address, end)
    };
    ranges(frames.map(range).collect())
}

/// Follows the frames from an address to the end of their native frame.
fn chain(
    layout: &Layout,
    start: u64,
    native: &Range<u64>,
    limit: usize,
    snapshot: &mut Snapshot,
    mut word: impl FnMut(&mut Snapshot, u64) -> Option<u64>,
) -> Chain {
    let mut chain = Chain::default();
    let mut address = start;
    while chain.frames.len() < limit {
        if frame_at(layout, address, snapshot).is_none() {
            // It may lie on two pages.
            word(snapshot, address);
            word(snapshot, address.saturating_add(FRAME_BYTES as u64 - 8));
        }
        let Some(found) = frame_at(layout, address, snapshot) else {
            break;
        };
        if found.is_entry {
            chain.end = Some(End::InNative(address));
            break;
        }
        chain.frames.push(found.frame);
        if found.is_marked {
            chain.end = Some(End::Marked(found.previous));
            break;
        }
        if native.contains(&found.previous) {
            chain.end = Some(End::InNative(found.previous));
            break;
        }
        address = found.previous;
    }
    chain
}

/// Returns the frames of a native frame that waits, from its current one on. `None` if they do not
/// lead to its end.
pub(super) fn waiting(
    layout: &Layout,
    current: u64,
    eval: &EvalFrame,
    snapshot: &mut Snapshot,
    more: &mut dyn FnMut(&mut Snapshot, u64),
) -> Option<(Vec<LiveFrame>, Option<u64>)> {
    let mut word = |snapshot: &mut Snapshot, address: u64| {
        if snapshot.u64(address).is_none() {
            more(snapshot, address);
        }
        snapshot.u64(address)
    };
    let native = eval.sp..eval.cfa;
    let chain = chain(layout, current, &native, MAX_CHAIN, snapshot, &mut word);
    let outer = match chain.end? {
        End::Marked(previous) => Some(previous),
        End::InNative(_) => None,
    };
    Some((chain.frames, outer))
}

/// Returns the frame object at each address, if it is one and leads to the next address.
pub(super) fn object_frames(
    layout: &Layout,
    frame_type: u64,
    addresses: &[u64],
    snapshot: &Snapshot,
) -> Vec<Option<LiveFrame>> {
    let next = addresses.iter().skip(1).copied().map(Some).chain([None]);
    let frames = addresses.iter().zip(next).map(|(address, next)| {
        let found = frame_at(layout, *address, snapshot)?;
        let is_frame = snapshot.u64(address.checked_add(TYPE as u64)?)? == frame_type;
        let leads = next.is_none_or(|next| found.previous == next);
        (is_frame && leads).then_some(found.frame)
    });
    frames.collect()
}

/// Returns reads of frame objects, each of which has its own memory.
pub(super) fn object_reads(frames: &[u64]) -> Vec<MemoryRead> {
    let read = |frame: &u64| MemoryRead::new(*frame, FRAME_BYTES);
    frames.iter().map(read).collect()
}
