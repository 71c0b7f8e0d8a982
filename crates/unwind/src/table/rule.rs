//! [`Rule`]: one row of call frame information, compiled.

/// Rule that turns the registers of a frame into those of its caller.
///
/// Source: DWARF 5, section 6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// The canonical frame address: the caller's stack pointer, as a rule.
    pub(crate) cfa: Cfa,
    /// The return address.
    pub(crate) return_address: Value,
    /// True if this is the frame a signal's handler returns to: the caller was interrupted, it
    /// did not call.
    pub(crate) signal: bool,
    /// Index of the first of the other registers with a rule, among the block's.
    pub(crate) first: u32,
    /// Number of registers with a rule.
    pub(crate) count: u8,
}

/// Rule for the canonical frame address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cfa {
    /// A register plus an offset.
    Register(u8, i32),
    /// The value of an expression, by its index in the block.
    Expression(u32),
    /// A rule that makes no sense or is not supported.
    Bad,
}

/// Rule for the value that a register had in the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// No rule: the default of the ABI.
    Default,
    /// Lost. For the return address: there is no caller.
    Undefined,
    /// Still in the register.
    Same,
    /// In memory, this far from the canonical frame address.
    AtCfa(i32),
    /// The canonical frame address plus this.
    CfaPlus(i32),
    /// In another register.
    Register(u8),
    /// In memory, at the value of an expression.
    At(u32),
    /// The value of an expression.
    Expression(u32),
    /// A rule that makes no sense or is not supported.
    Bad,
}

/// The rule of one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Saved {
    /// DWARF number.
    pub(crate) register: u8,
    pub(crate) value: Value,
}

/// Position of an expression in the section's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}
