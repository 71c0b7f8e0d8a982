//! [`SampleFrame`]: one frame of a sample.

use rprof_profile::{Function, Object};

/// Frame of a sample with its function and address, as `script` prints it.
#[derive(Clone, Copy, Debug)]
pub struct SampleFrame<'s> {
    /// Offset in the file for images that have one, else address in memory. Callers have the return
    /// address.
    pub address: u64,
    /// Function of the address, or of the call inlined there.
    pub function: &'s Function,
    /// Distance in bytes of `address` from the start of its function, the enclosing one for inlined
    /// calls.
    pub offset: u64,
    /// Object with the function.
    pub object: &'s Object,
    /// True if inlined into the next outer frame.
    pub inlined: bool,
    /// Source line of `address`, if known and requested.
    pub line: Option<SampleLine<'s>>,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLine<'s> {
    /// Path of the file. May contain any character: escape before display.
    pub file: &'s str,
    /// Line, from 1; 0 if the code has none.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}
