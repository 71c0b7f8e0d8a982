//! Input and output types of [`DeepStackCompleter`](super::DeepStackCompleter).

use crate::{Root, StackFrame};

/// The end of a stack copy: the slot of the next return address, and the function called from
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CutPoint {
    /// Address of the slot.
    pub slot: u64,
    /// Address of the function.
    pub function: u64,
}

/// A stack up to its root. All frames, or the outer ones, were observed at one moment.
#[derive(Debug, Clone, Copy)]
pub struct StackObservation<'a> {
    /// All frames, innermost first.
    pub frames: &'a [StackFrame],
    /// Index of the first frame observed at `time`: 0 for a complete copy; for a read of memory the
    /// first frame beyond the copy.
    pub observed_from: usize,
    /// Evidence that the last frame is the outermost.
    pub root: Root,
    /// Start of the read of memory in ns; `time` for a copy.
    pub begun: u64,
    /// Time of the copy, or end of the read of memory, in ns.
    pub time: u64,
}

/// Result for a truncated stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion<'a> {
    /// The callers beyond the cut point, innermost first, and the evidence that the last one is the
    /// outermost.
    Callers(&'a [StackFrame], Root),
    /// Undecided: later observations may contradict.
    Pending,
    /// The callers are unknown; the stack stays truncated.
    Unknown,
}

/// Code of a process, by address.
pub trait CodeLookup {
    /// Returns the address of the function that contains a frame's address.
    fn function_of(&self, frame: &StackFrame) -> Option<u64>;

    /// Returns a process-independent id of the image mapped at an address, and the file offset.
    fn image_offset(&self, address: u64) -> Option<(u64, u64)>;
}
