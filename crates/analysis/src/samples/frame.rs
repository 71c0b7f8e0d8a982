//! [`SampleFrame`]: one frame of a sample.

use rprof_profile::{Function, Object};

/// One frame of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleFrame<'s> {
    /// The address: an offset into the file for images that have one, else the
    /// address in memory. For a caller the return address.
    pub address: u64,
    /// The function.
    pub function: &'s Function,
    /// Distance of `address` from the start of the function that lies there, in bytes; for
    /// inlined calls that is the function they were inlined into.
    pub offset: u64,
    /// The object that the function lies in.
    pub object: &'s Object,
    /// True if the call was inlined into the next outer frame.
    pub inlined: bool,
    /// Source line of `address`, if known and asked for.
    pub line: Option<FrameLine<'s>>,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLine<'s> {
    /// Path of the file. May hold any character: escape it before showing it.
    pub file: &'s str,
    /// The line, from 1; 0 where the code belongs to none.
    pub line: u32,
    /// The column, from 1; 0 where it is unknown.
    pub column: u32,
}
