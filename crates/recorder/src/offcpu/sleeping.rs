//! [`Sleeping`]: threads that sleep at the end of a window, with their switch counts and stacks.

use rustc_hash::FxHashMap;

use super::wait::Cause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) tid: i32,
    pub(super) switches: u64,
    /// Time before the count was read.
    pub(super) at: u64,
}

/// Thread in an unknown wait: process, thread, switch count.
pub(super) type Unknown = (i32, i32, u64);

#[derive(Debug)]
pub(super) struct Carried {
    pub(super) switches: u64,
    pub(super) cause: Cause,
    pub(super) stack: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Sleeping {
    pub(super) carried: FxHashMap<i32, Carried>,
    pub(super) unknown: Vec<Unknown>,
    /// Last counted thread; the next turn begins after it.
    pub(super) turn: i32,
}
