//! [`AssembleInputs`]: maps locations to functions, for all workers.

use std::borrow::Cow;

use rprof_profile::ProfileBuilder;
use rprof_profile::waits::{is_of_waits, reason_of};

use crate::assemble::root_code::RootCode;
use crate::assemble::wakers::WakerFrames;
use crate::groups::WokenBy;
use crate::sideband_pass::Index;
use crate::stack_filter::StackFilter;
use crate::symbolize::Symbols;

pub(super) struct AssembleInputs<'a> {
    pub(super) symbols: &'a Symbols,
    /// True for kernel code, by location id.
    pub(super) is_kernel: Vec<bool>,
    pub(super) root_code: RootCode<'a>,
    pub(super) has_callchains: bool,
    pub(super) filter: StackFilter<'a>,
    /// Event of the wait samples, if the filter examines stacks.
    pub(super) waits: Option<usize>,
    pub(super) wakers: WakerFrames,
    pub(super) frames: FrameIds,
    pub(super) one_by_one: bool,
    /// True for each event whose samples are sums of memory or allocations.
    pub(super) is_of_memory: Vec<bool>,
}

#[derive(Clone, Copy)]
pub(super) enum FrameIds {
    Functions,
    /// Function ids, with one bit for inlined calls.
    Inlined,
    /// Addresses: each location has frames of its own.
    Addresses,
}

pub(super) fn waits_of(index: &Index<'_>) -> Option<usize> {
    let events = index.data.events().list().iter();
    events.map(|event| &*event.name).position(is_of_waits)
}

impl AssembleInputs<'_> {
    /// Returns the reason of a wait, if the filter needs it. The locations must be leaf first.
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

    /// Iterates over the frame ids at a location, outermost first.
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
