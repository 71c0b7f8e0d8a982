//! Position of the frames of a graph: depth and horizontal range.

use crate::folded::{Folded, GraphStack};
use crate::frame_kind::FrameKind;

/// Frame of a graph: all calls of a function from the same callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedFrame {
    /// Index of its name in [`Folded::names`]; `None` for the root.
    pub(super) name: Option<usize>,
    /// Kind with the largest weight.
    pub(super) kind: FrameKind,
    /// Number of ancestors, including the root.
    pub(super) depth: usize,
    /// Weight to the left of it.
    pub(super) start: u64,
    /// Inclusive weight.
    pub(super) weight: u64,
    pub(super) samples: u64,
    pub(super) narrow: Narrow,
}

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

#[derive(Debug)]
pub(super) struct Layout {
    /// Callees precede their callers.
    pub(super) frames: Vec<PlacedFrame>,
    pub(super) weight: u64,
    pub(super) deepest: usize,
    /// Block that is drawn narrower than its weight.
    pub(super) squeezed: Option<Squeezed>,
    /// Omitted frames. The weight counts only the outermost of each stack.
    pub(super) narrow: Narrow,
}

/// The idle block is at most 1/9 as wide as the rest.
const IDLE_WIDTH: u64 = 9;

/// Block of idle threads, which would leave no room for other frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Squeezed {
    /// Weight to the left of it.
    pub(super) start: u64,
    pub(super) weight: u64,
    /// Weight that its drawn width represents.
    pub(super) drawn: u64,
}

impl Squeezed {
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

    fn place(self, at: u64) -> u64 {
        let inside = at.clamp(self.start, self.start + self.weight) - self.start;
        let drawn = u128::from(inside) * u128::from(self.drawn) / u128::from(self.weight.max(1));
        at - inside + drawn as u64
    }
}

struct OpenFrame {
    rank: Option<u32>,
    kind: FrameKind,
    start: u64,
    samples_before: u64,
    /// Weight of inlined calls of this frame.
    inlined: u64,
    narrow: Narrow,
}

impl Layout {
    /// Places sorted stacks. Omits frames narrower than `min_width` percent of the total.
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

    /// Converts a position to a drawn position. For the total weight, this is the weight of the
    /// full width.
    pub(super) fn drawn(&self, at: u64) -> u64 {
        self.squeezed.map_or(at, |squeezed| squeezed.place(at))
    }

    /// Closes all open frames but the first `kept` at the current position.
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
