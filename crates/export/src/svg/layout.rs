//! Places of the frames of a graph: depth, and what part of the width.

use crate::folded::{Folded, GraphStack};
use crate::frame_kind::FrameKind;

/// Frame of a graph: calls of one function by the same callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedFrame {
    /// Index of its name in [`Folded::names`]; `None` for the whole graph.
    pub(super) name: Option<usize>,
    /// Kind of most of its weight.
    pub(super) kind: FrameKind,
    /// Number of callers, the whole graph being one.
    pub(super) depth: usize,
    /// Weight of all that stands before it.
    pub(super) start: u64,
    /// Its own weight, with all that it called.
    pub(super) weight: u64,
    /// Number of its samples.
    pub(super) samples: u64,
    /// Callees of it that are too narrow to be drawn.
    pub(super) narrow: Narrow,
}

/// Number and weight of frames that are too narrow to be drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Narrow {
    pub(super) frames: u64,
    pub(super) weight: u64,
}

impl Narrow {
    fn add(&mut self, frames: u64, weight: u64) {
        self.frames += frames;
        self.weight = self.weight.saturating_add(weight);
    }
}

/// The frames of a graph that are wide enough to be drawn.
#[derive(Debug)]
pub(super) struct Layout {
    /// The frames, callees before their callers.
    pub(super) frames: Vec<PlacedFrame>,
    /// Weight of the whole graph.
    pub(super) weight: u64,
    /// Depth of the deepest frame.
    pub(super) deepest: usize,
    /// Part of the graph that is drawn narrower than it weighs.
    pub(super) squeezed: Option<Squeezed>,
    /// All frames that are not drawn, with the weight of the outermost of each stack.
    pub(super) narrow: Narrow,
}

/// Largest part of the rest that the block of idle threads is as wide as: a tenth of the whole then.
const IDLE_WIDTH: u64 = 9;

/// Waits of idle threads, which would leave no room for all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Squeezed {
    /// Weight of all that stands before it.
    pub(super) start: u64,
    /// Weight of the squeezed waits.
    pub(super) weight: u64,
    /// Weight that it is as wide as.
    pub(super) drawn: u64,
}

impl Squeezed {
    /// Finds the block of idle threads, if it is wider than it should be.
    fn of(folded: &Folded) -> Option<Squeezed> {
        let (mut start, mut weight, mut at) = (0, 0u64, 0u64);
        for stack in folded.graph() {
            if stack.kinds.first() == Some(&FrameKind::Idle) {
                start = if weight == 0 { at } else { start };
                weight = weight.saturating_add(stack.weight);
            }
            at = at.saturating_add(stack.weight);
        }
        let drawn = (at - weight) / IDLE_WIDTH;
        (0 < drawn && drawn < weight).then_some(Squeezed {
            start,
            weight,
            drawn,
        })
    }

    /// Returns where a place of the graph is drawn.
    fn place(self, at: u64) -> u64 {
        let inside = at.clamp(self.start, self.start + self.weight) - self.start;
        let drawn = u128::from(inside) * u128::from(self.drawn) / u128::from(self.weight.max(1));
        at - inside + drawn as u64
    }
}

/// Frame that the stacks met so far may go on in.
struct OpenFrame {
    rank: Option<u32>,
    kind: FrameKind,
    start: u64,
    samples_before: u64,
    /// Weight of inlined calls in it.
    inlined: u64,
    narrow: Narrow,
}

impl Layout {
    /// Places the stacks of a graph, which are sorted. Left out are frames of less than
    /// `min_width` percent of the whole weight.
    pub(super) fn of(folded: &Folded, min_width: f64) -> Layout {
        let weights = folded.graph().map(|stack| stack.weight);
        let weight = weights.fold(0, u64::saturating_add);
        let mut layout = Layout {
            frames: Vec::new(),
            weight,
            deepest: 0,
            squeezed: Squeezed::of(folded),
            narrow: Narrow::default(),
        };
        let least = min_width * layout.drawn(weight) as f64 / 100.0;
        let (mut at, mut samples) = (0u64, 0u64);
        let mut open = vec![OpenFrame {
            rank: None,
            kind: FrameKind::Thread,
            start: 0,
            samples_before: 0,
            inlined: 0,
            narrow: Narrow::default(),
        }];
        for stack in folded.graph() {
            let alike = open[1..].iter().zip(stack.ranks);
            let kept = 1 + alike.take_while(|(a, b)| a.rank == Some(**b)).count();
            layout.close(folded, &mut open, kept, (at, samples), least);
            open.extend((kept - 1..stack.ranks.len()).map(|depth| OpenFrame {
                rank: Some(stack.ranks[depth]),
                kind: stack.kinds[depth],
                start: at,
                samples_before: samples,
                inlined: 0,
                narrow: Narrow::default(),
            }));
            count_inlined(&mut open[1..], &stack);
            at = at.saturating_add(stack.weight);
            samples = samples.saturating_add(stack.samples);
        }
        layout.close(folded, &mut open, 0, (at, samples), least);
        layout
    }

    /// Returns where a place of the graph is drawn, in weight before it; for the weight of the whole, what the width stands
    /// for.
    pub(super) fn drawn(&self, at: u64) -> u64 {
        self.squeezed.map_or(at, |squeezed| squeezed.place(at))
    }

    /// Places the frames beyond the first `kept`, all of which end here.
    fn close(
        &mut self,
        folded: &Folded,
        open: &mut Vec<OpenFrame>,
        kept: usize,
        (at, samples): (u64, u64),
        least: f64,
    ) {
        while open.len() > kept {
            let depth = open.len() - 1;
            let Some(frame) = open.pop() else { return };
            let weight = at - frame.start;
            let drawn = self.drawn(at) - self.drawn(frame.start);
            if (drawn as f64) < least {
                self.narrow.add(1, 0);
                if let Some(caller) = open.last_mut() {
                    caller.narrow.add(1, weight);
                }
                continue;
            }
            self.narrow.add(0, frame.narrow.weight);
            self.deepest = self.deepest.max(depth);
            let is_inlined = frame.inlined > weight - frame.inlined.min(weight);
            self.frames.push(PlacedFrame {
                name: frame.rank.map(|rank| folded.name_of(rank)),
                kind: match (is_inlined, frame.kind) {
                    (true, _) => FrameKind::Inlined,
                    (false, FrameKind::Inlined) => FrameKind::User,
                    (false, kind) => kind,
                },
                depth,
                start: frame.start,
                weight,
                samples: samples - frame.samples_before,
                narrow: frame.narrow,
            });
        }
    }
}

fn count_inlined(open: &mut [OpenFrame], stack: &GraphStack<'_>) {
    for (frame, kind) in open.iter_mut().zip(stack.kinds) {
        if *kind == FrameKind::Inlined {
            frame.inlined = frame.inlined.saturating_add(stack.weight);
        }
    }
}
