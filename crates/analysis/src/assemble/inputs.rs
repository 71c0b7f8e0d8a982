//! [`AssembleInputs`]: what all workers share to map locations to functions.

use std::borrow::Cow;

use rprof_profile::ProfileBuilder;
use rprof_profile::waits::{is_of_waits, reason_of};

use crate::assemble::root_code::RootCode;
use crate::assemble::wakers::WakerFrames;
use crate::groups::WokenBy;
use crate::sideband_pass::Index;
use crate::stack_filter::StackFilter;
use crate::symbolize::Symbols;

/// Inputs shared by all workers' mapping of locations to functions.
pub(super) struct AssembleInputs<'a> {
    pub(super) symbols: &'a Symbols,
    /// By location id, true if it is in the kernel.
    pub(super) is_kernel: Vec<bool>,
    /// Roots by their code.
    pub(super) root_code: RootCode<'a>,
    pub(super) has_callchains: bool,
    pub(super) filter: StackFilter<'a>,
    /// Event whose samples are waits, if the filter looks at stacks.
    pub(super) waits: Option<usize>,
    /// Frames for who ended waits.
    pub(super) wakers: WakerFrames,
    pub(super) frames: FrameIds,
    /// True if samples are wanted one by one.
    pub(super) one_by_one: bool,
    /// Number of events.
    pub(super) events: usize,
}

/// Kind of frame ids: by function, by function and inlining, or by address.
#[derive(Clone, Copy)]
pub(super) enum FrameIds {
    /// Functions.
    Functions,
    /// Functions, each by whether it was inlined.
    Inlined,
    /// Addresses: each location has frames of its own.
    Addresses,
}

/// Returns the event whose samples are waits.
pub(super) fn waits_of(index: &Index<'_>) -> Option<usize> {
    let events = index.data.events().list().iter();
    events.map(|event| &*event.name).position(is_of_waits)
}

impl AssembleInputs<'_> {
    /// Returns what was waited for in a stack, whose locations are from the leaf outwards, if the filter looks at it.
    pub(super) fn reason<L: Iterator<Item = u32>>(
        &self,
        event: u32,
        from_leaf: impl FnOnce() -> L,
    ) -> Option<Cow<'static, str>> {
        if self.waits != Some(event as usize) {
            return None;
        }
        let names = |location: u32| {
            let frames = self.symbols.frames(location).iter().rev();
            frames.map(move |frame| {
                let function = &self.symbols.functions[frame.function.0 as usize];
                let is_kernel = self.is_kernel[location as usize];
                (is_kernel, function.name.as_deref().ok())
            })
        };
        Some(reason_of(from_leaf().flat_map(names)))
    }

    /// Iterates over the ids of the frames at a location, outermost first.
    #[inline]
    pub(super) fn frames(&self, location: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.symbols.first_frame(location);
        let frames = self.symbols.frames(location).iter().zip(first..);
        frames.map(move |(frame, own)| match self.frames {
            FrameIds::Functions => frame.function.0,
            FrameIds::Inlined => ProfileBuilder::inlined_frame_number(frame.function, own > first),
            FrameIds::Addresses => own,
        })
    }

    /// Returns the id of the frame for what ended a wait, and its name.
    pub(super) fn waker(&self, woken: WokenBy) -> Option<(u32, &str)> {
        let (function, place) = self.wakers.find(woken)?;
        let id = match self.frames {
            FrameIds::Functions => function.0,
            FrameIds::Inlined => ProfileBuilder::inlined_frame_number(function, false),
            FrameIds::Addresses => self.symbols.frame_count() as u32 + place,
        };
        let name = self.symbols.functions[function.0 as usize].name.as_deref();
        Some((id, name.unwrap_or_default()))
    }
}
