//! [`Rule`]: one compiled row of call frame information.

/// Rule that computes the caller's registers from a frame's.
///
/// Source: DWARF 5, section 6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// The canonical frame address, normally the caller's stack pointer.
    pub(crate) cfa: Cfa,
    /// The return address.
    pub(crate) return_address: Value,
    /// True if signal handlers return to this code: the caller was interrupted and made no call.
    pub(crate) signal: bool,
    /// Index of its first [`Saved`] entry in the block.
    pub(crate) first: u32,
    /// Number of its [`Saved`] entries.
    pub(crate) count: u8,
}

/// Rule for the canonical frame address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cfa {
    /// A register plus an offset in bytes.
    Register(u8, i32),
    /// The value of an expression, by its index in the block.
    Expression(u32),
    /// The rule makes no sense or is not supported.
    Bad,
}

/// Rule for a register's value in the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// No rule: the ABI's default applies.
    Default,
    /// Lost. For the return address: there is no caller.
    Undefined,
    /// Still in the register.
    Same,
    /// In memory, at this offset from the canonical frame address.
    AtCfa(i32),
    /// The canonical frame address plus this offset.
    CfaPlus(i32),
    /// In another register.
    Register(u8),
    /// In memory, at the address that an expression gives.
    At(u32),
    /// The value of an expression.
    Expression(u32),
    /// The rule makes no sense or is not supported.
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
