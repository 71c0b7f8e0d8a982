//! Inputs and answers of a [`DeepStackCompleter`](super::DeepStackCompleter).

use crate::{Frame, Root};

/// The point at which a copy of a stack ends: the slot of the next return address, and the function that was
/// called from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CutPoint {
    /// Address of the slot.
    pub slot: u64,
    /// Address of the function.
    pub function: u64,
}

/// A stack up to its root, of which all or the outer part was seen at one moment.
#[derive(Debug, Clone, Copy)]
pub struct StackObservation<'a> {
    /// All frames, innermost first.
    pub frames: &'a [Frame],
    /// Index of the first frame that was seen at `time`: 0 for a complete copy; for a read of memory
    /// the first frame beyond the copy's end.
    pub observed_from: usize,
    /// Evidence that the last frame is the outermost.
    pub root: Root,
    /// When the look began, in ns: `time` for a copy.
    pub begun: u64,
    /// When it was seen, in ns; for a read of memory, when that had ended.
    pub time: u64,
}

/// The answer for a stack that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion<'a> {
    /// The callers beyond the cut point, innermost first, and the evidence that the last of them is
    /// the outermost frame.
    Callers(&'a [Frame], Root),
    /// Not decided yet: observations to come may contradict.
    Pending,
    /// The callers are not known, and the stack stays truncated.
    Unknown,
}

/// Code of a process, by address.
pub trait CodeLookup {
    /// Returns the address of the function that a frame is in.
    fn function_of(&self, frame: &Frame) -> Option<u64>;

    /// Returns the image that is mapped at an address, by an id that is the same in all processes, and
    /// the offset in its file.
    fn image_offset(&self, address: u64) -> Option<(u64, u64)>;
}
