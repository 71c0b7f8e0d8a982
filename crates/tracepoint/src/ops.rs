//! Operations of compiled expressions, as data.

use crate::types::Type;
use crate::value::Number;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Operations on a stack of values. Each pops its operands, and pushes one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Number(Number),
    /// String of the program.
    Text(u32),
    /// Field: its number, or its bytes if it is an array.
    Field(u32),
    /// Bytes of a field in an expression that takes its address.
    FieldBytes(u32),
    /// Length in bytes of a field's dynamic array.
    DynamicLen(u32),
    /// Value known only to the kernel.
    Unknown,
    Negate,
    Not,
    Complement,
    Binary(Binary),
    Cast(Type),
    /// Element of an array.
    Index,
    /// `a ? b : c`.
    Select,
    /// `__print_flags` with a table of the program.
    Flags(u32),
    /// `__print_symbolic` with a table of the program.
    Symbolic(u32),
    /// `__print_hex`, with spaces, and `__print_hex_str`, without.
    Hex {
        spaced: bool,
    },
    /// `__print_array` of a pointer, a count and an element's size.
    Array,
    /// `__get_bitmask`, `__get_cpumask`.
    Bitmask,
    /// `__print_ns_to_secs`.
    Seconds,
    /// `__print_ns_without_secs`.
    Nanoseconds,
}

/// Names for the numbers of flags or of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) delimiter: String,
    pub(crate) entries: Vec<(u64, String)>,
}

/// Compiled expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) texts: Vec<String>,
    pub(crate) tables: Vec<Table>,
}
