//! [`Rule`]: one compiled row of call frame information.

/// Computes the caller's registers from a frame's. Source: DWARF 5, section 6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// Canonical frame address, normally the caller's stack pointer.
    pub(crate) cfa: Cfa,
    pub(crate) return_address: Value,
    /// True if signal handlers return to this code: the caller was interrupted.
    pub(crate) signal: bool,
    /// True if it holds from the first instruction of a function on and has a frame there. So it is of a
    /// split-off part, or of assembly.
    pub(crate) has_frame_at_start: bool,
    /// Index of its first [`Saved`] entry in the block.
    pub(crate) first: u32,
    pub(crate) count: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cfa {
    /// Register plus offset.
    Register(u8, i32),
    Expression(u32),
    /// Nonsensical or unsupported.
    Bad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// The ABI's default.
    Default,
    /// Lost. For the return address: there is no caller.
    Undefined,
    Same,
    /// Value in memory, at this offset from the CFA.
    AtCfa(i32),
    /// The CFA plus this offset.
    CfaPlus(i32),
    Register(u8),
    /// Value in memory, at an expression's value.
    At(u32),
    Expression(u32),
    Bad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Saved {
    pub(crate) register: u8,
    pub(crate) value: Value,
}

/// Position in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}
