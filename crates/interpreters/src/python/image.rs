//! [`PythonImage`]: an image with the interpreter.

use std::ops::Range;
use std::sync::Mutex;

use super::current::LearnedFrames;
use super::layout::Layout;

/// An image with the interpreter.
#[derive(Debug)]
pub(super) struct PythonImage {
    pub(super) layout: Layout,
    pub(super) minor: u8,
    pub(super) eval: u64,
    /// Stated addresses (SVMA) of the interpreter's function and its parts.
    pub(super) evals: Vec<Range<u64>>,
    pub(super) code_type: u64,
    pub(super) frame_type: u64,
    pub(super) version: Option<u64>,
    /// `_PyRuntime`, which begins with [the offsets](super::debug_offsets).
    pub(super) runtime: Option<u64>,
    /// Code that sets up a frame, if the compiler has split off the rest.
    pub(super) set_up: Option<Range<u64>>,
    pub(super) learned: Mutex<LearnedFrames>,
}

impl PythonImage {
    pub(super) fn is_eval(&self, svma: u64) -> bool {
        self.evals.iter().any(|range| range.contains(&svma))
    }
}
