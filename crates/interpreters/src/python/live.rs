//! [`LiveLook`]: the Python frames of a thread during a read, which is after the sample.

use super::current::EvalFrame;
use super::layout::{FRAME_BYTES, FrameKind, Layout};
use super::looks::Part;
use super::slots::Site;
use super::snapshot::Snapshot;
use crate::{MemoryRead, ProcessMemory};

/// Maximum number of Python frames of one native frame.
const MAX_CHAIN: usize = 4096;

/// Maximum number of native frames with a read of their current frame.
const MAX_CURRENT: usize = 16;

/// `FRAME_OWNED_BY_GENERATOR`
const BY_GENERATOR: u8 = 1;

/// Python frame in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveFrame {
    pub(super) address: u64,
    pub(super) code: u64,
    /// True if the frame is part of a generator or coroutine, and moves with it.
    pub(super) is_generator: bool,
}

/// Python frames of one native frame, innermost first.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub(super) frames: Vec<LiveFrame>,
    /// End of the chain. `None` if the chain stops before the end of its part.
    pub(super) end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The last frame is marked as the outermost one. The next outer part's current frame follows.
    Marked(u64),
    /// A frame at this address lies in the native frame.
    InNative(u64),
}

/// Position of the thread during the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveLook {
    /// Native frame that ran, as index of the interpreter's native frames. `None` if only the
    /// chain can tell.
    pub(super) eval: Option<usize>,
    /// Address of the thread's current Python frame.
    pub(super) frame: u64,
}

/// A look, and its source addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveThread<'a> {
    pub(super) look: Option<LiveLook>,
    /// Address of the thread state.
    pub(super) state: Option<u64>,
    /// Addresses of the native frames' `_PyCFrame`.
    pub(super) cframes: &'a [Option<u64>],
}

/// Returns the reads that tell where a thread is. They come before and after the other reads, to
/// detect changes. `cframes` are the addresses of the native frames' `_PyCFrame`.
pub(super) fn reads(layout: &Layout, state: u64, cframes: &[Option<u64>]) -> Vec<MemoryRead> {
    let mut reads = vec![MemoryRead::new(state.wrapping_add(layout.thread), 8)];
    if let FrameKind::CFrames { current, .. } = layout.kind {
        let known = cframes.iter().take(MAX_CURRENT);
        reads.extend(
            known.map(|cframe| MemoryRead::new(cframe.unwrap_or(0).wrapping_add(current), 8)),
        );
    }
    reads
}

/// Decodes the [`reads`] before and after the others. `None` if the thread has moved meanwhile, or
/// runs another native frame than in the sample.
pub(super) fn look(
    layout: &Layout,
    (before, after): (&[MemoryRead], &[MemoryRead]),
    cframes: &[Option<u64>],
) -> Option<LiveLook> {
    let same = |(one, other): (&MemoryRead, &MemoryRead)| {
        one.u64(0).is_some() && one.u64(0) == other.u64(0)
    };
    let (state, after_state) = (before.first()?, after.first()?);
    if !same((state, after_state)) {
        return None;
    }
    match layout.kind {
        FrameKind::CFrames { .. } => {
            let cframe = state.u64(0)?;
            let eval = cframes.iter().position(|known| *known == Some(cframe))?;
            let at = eval.checked_add(1)?;
            let (current, after) = (before.get(at)?, after.get(at)?);
            same((current, after)).then_some(LiveLook {
                eval: Some(eval),
                frame: current.u64(0)?,
            })
        }
        FrameKind::Entries => Some(LiveLook {
            eval: None,
            frame: state.u64(0)?,
        }),
        FrameKind::Objects => None,
    }
}

/// Frames of a native frame that began after the sample. Its caller is in the sample.
#[derive(Debug)]
pub(super) struct InnerLook {
    pub(super) part: Part,
    pub(super) chain: Chain,
}

/// Bytes below a `_PyCFrame` that belong to its native frame.
const BELOW_CFRAME: u64 = 256;

/// Looks at a native frame that began after the sample. `live` are the completed [`reads`].
pub(super) fn inner_look(
    layout: &Layout,
    state: u64,
    live: &[MemoryRead],
    cframes: &[Option<u64>],
    evals: &[EvalFrame],
    snapshot: &mut Snapshot,
    memory: &mut dyn ProcessMemory,
) -> Option<(LiveLook, InnerLook)> {
    let FrameKind::CFrames {
        current, previous, ..
    } = layout.kind
    else {
        return None;
    };
    let cframe = live.first()?.u64(0)?;
    // Native frames have the same size, so the distance to its end is the same.
    let below = evals
        .first()?
        .cfa
        .checked_sub(cframes.first().copied().flatten()?)?;
    let native = cframe.checked_add(below)?;
    if cframes.contains(&Some(cframe)) || native > evals.last()?.cfa {
        return None;
    }
    let start = cframe.checked_sub(BELOW_CFRAME)?;
    let whole = usize::try_from(native.checked_sub(start)?)
        .ok()
        .filter(|len| *len <= 4096)?;
    let reads = || {
        vec![
            MemoryRead::new(state.wrapping_add(layout.thread), 8),
            MemoryRead::new(start, whole),
        ]
    };
    let mut first = reads();
    memory.read(&mut first);
    let field = |reads: &[MemoryRead], field: u64| {
        reads
            .get(1)?
            .u64(usize::try_from(BELOW_CFRAME.checked_add(field)?).ok()?)
    };
    let (frame, outer) = (field(&first, current)?, field(&first, previous)?);
    let eval = cframes.iter().position(|known| *known == Some(outer))?;
    let outer = live.get(eval.checked_add(1)?)?.u64(0)?;
    let (before, after) = snapshot.read(&[frame], (reads(), reads()), memory);
    let is_same = |reads: &[MemoryRead]| {
        reads.first().and_then(|read| read.u64(0)) == Some(cframe)
            && field(reads, current) == Some(frame)
    };
    if !is_same(&before) || !is_same(&after) {
        return None;
    }
    let own = EvalFrame {
        index: 0,
        site: Site::Running,
        is_starting: false,
        sp: start,
        cfa: native,
    };
    let chain = chain(layout, frame, &[own], snapshot, |_, _| ());
    let leads_to = match chain.end? {
        End::Marked(previous) => previous,
        End::InNative(at) => {
            let link = at.checked_add(layout.frame.previous as u64)?;
            before
                .get(1)?
                .u64(usize::try_from(link.checked_sub(start)?).ok()?)?
        }
    };
    let part = Part { native, outer };
    let look = LiveLook {
        eval: Some(eval),
        frame: outer,
    };
    (leads_to == outer).then_some((look, InnerLook { part, chain }))
}

/// Returns the frame at an address, and the address of its caller's frame.
fn frame_at(layout: &Layout, address: u64, snapshot: &Snapshot) -> Option<(LiveFrame, u64, bool)> {
    let bytes = snapshot.bytes::<FRAME_BYTES>(address)?;
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let owner = layout.frame.owner.and_then(|at| bytes.get(at));
    let is_marked = match layout.kind {
        FrameKind::CFrames { is_entry, .. } => is_entry.and_then(|at| bytes.get(at)),
        FrameKind::Objects | FrameKind::Entries => None,
    };
    let frame = LiveFrame {
        address,
        code: word(layout.frame.code)?,
        is_generator: owner == Some(&BY_GENERATOR),
    };
    let is_marked = is_marked.is_some_and(|byte| *byte != 0);
    Some((frame, word(layout.frame.previous)?, is_marked))
}

/// Returns the frame at an address, if the snapshot has it.
pub(super) fn frame(layout: &Layout, address: u64, snapshot: &Snapshot) -> Option<LiveFrame> {
    Some(frame_at(layout, address, snapshot)?.0)
}

/// Follows the frames from an address to the end of their part. `more` reads the memory around an
/// address that the snapshot has not.
pub(super) fn chain(
    layout: &Layout,
    start: u64,
    evals: &[EvalFrame],
    snapshot: &mut Snapshot,
    mut more: impl FnMut(&mut Snapshot, u64),
) -> Chain {
    let mut chain = Chain::default();
    let mut address = start;
    while chain.frames.len() < MAX_CHAIN {
        if frame_at(layout, address, snapshot).is_none() {
            more(snapshot, address);
        }
        let Some((frame, previous, is_marked)) = frame_at(layout, address, snapshot) else {
            break;
        };
        chain.frames.push(frame);
        if is_marked {
            chain.end = Some(End::Marked(previous));
            break;
        }
        if evals.iter().any(|eval| eval.contains(previous)) {
            chain.end = Some(End::InNative(previous));
            break;
        }
        address = previous;
    }
    chain
}
