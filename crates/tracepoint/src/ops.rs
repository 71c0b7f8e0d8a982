//! Operations of compiled expressions, as data.

use crate::types::Type;
use crate::value::Number;

/// Operators of two operands.
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

/// Operations on a stack of values. Each takes its operands from the stack and leaves one value there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Number(Number),
    /// A string of the program.
    Text(u32),
    /// A field: its number, or its bytes if it is an array.
    Field(u32),
    /// Bytes of a field, as an address is taken of it.
    FieldBytes(u32),
    /// Length in bytes of a field's dynamic array.
    DynamicLen(u32),
    /// A value that only the kernel has.
    Unknown,
    Negate,
    Not,
    Complement,
    Binary(Binary),
    Cast(Type),
    /// An element of an array.
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

/// Names for numbers, of flags or of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) delimiter: String,
    pub(crate) entries: Vec<(u64, String)>,
}

/// A compiled expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) texts: Vec<String>,
    pub(crate) tables: Vec<Table>,
}
