//! [`SampleStore`]: data behind single samples.

use std::borrow::Cow;

use crate::location::Location;
use crate::sample_pass::results::WorkerOutput;
use crate::samples::frame::{SampleFrame, SampleLine};
use crate::samples::trace::Trace;
use crate::sideband_pass::Index;
use crate::symbolize::Symbols;

#[derive(Debug)]
pub(super) struct SampleStore<'a> {
    pub(super) index: Index<'a>,
    pub(super) resolved: WorkerOutput,
    pub(super) symbols: Symbols,
    /// Distinct thread names; `name_of` has the index by row.
    pub(super) names: Vec<String>,
    pub(super) name_of: Vec<u32>,
    pub(super) event_names: Vec<Cow<'a, str>>,
    pub(super) trace: Option<Trace<'a>>,
}

impl SampleStore<'_> {
    /// Iterates over the frames at a location, innermost first.
    pub(super) fn frames(&self, location: u32) -> impl DoubleEndedIterator<Item = SampleFrame<'_>> {
        let at: &Location = &self.resolved.locations.as_slice()[location as usize];
        let symbolized = self.symbols.symbolized[location as usize];
        let back = u64::from(at.caller);
        let frames = self.symbols.frames(location).iter().rev();
        frames.map(move |frame| {
            let function = &self.symbols.functions[frame.function.0 as usize];
            SampleFrame {
                address: at.lookup.wrapping_add(back),
                function,
                offset: symbolized.offset.wrapping_add(back),
                object: &self.symbols.objects[function.object.0 as usize],
                inlined: frame.inlined,
                line: frame.line.map(|line| SampleLine {
                    file: &self.symbols.files[line.file.0 as usize],
                    line: line.line,
                    column: line.column,
                }),
            }
        })
    }
}
