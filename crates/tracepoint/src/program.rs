//! Expressions as operations on a stack, and running them over a payload.
//!
//! There are no jumps: both sides of `?:` and `&&` are evaluated, which is harmless,
//! since nothing has side effects, and makes running linear in the program.

use std::borrow::Cow;
use std::cell::Cell;

use rprof_records::Endian;

use super::format::{Field, FieldKind};
use super::helpers;
use super::types::Type;
use super::value::{Bytes, Integer, Number, Value};

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
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

/// Operations. Each takes its operands from the stack and leaves one value there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    Number(Number),
    /// A string of the program.
    Text(u32),
    /// A field: its number, or its bytes if it is an array.
    Field(u32),
    /// Where a field stands.
    FieldBytes(u32),
    /// Length in bytes of a field's dynamic array.
    DynamicLen(u32),
    /// What the recording cannot tell.
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
pub(super) struct Table {
    pub(super) delimiter: String,
    pub(super) entries: Vec<(u64, String)>,
}

/// A compiled expression.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) texts: Vec<String>,
    pub(super) tables: Vec<Table>,
}

/// A payload and what is known of it.
pub(super) struct Payload<'p> {
    pub(super) bytes: &'p [u8],
    pub(super) fields: &'p [Field],
    pub(super) endian: Endian,
    /// Work that evaluation may still do.
    pub(super) budget: Cell<usize>,
}

/// Work for one payload: some hundred times that of the kernel's own events.
pub(super) const BUDGET: usize = 1 << 20;

impl<'p> Payload<'p> {
    /// Takes from the budget; `false` when it is used up.
    pub(super) fn spend(&self, work: usize) -> bool {
        let left = self.budget.get().checked_sub(work);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    fn slice(&self, start: usize, len: usize) -> Option<&'p [u8]> {
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// Bytes of a field: of an array that lies elsewhere, those of the array. What
    /// reaches beyond the payload is cut off.
    pub(super) fn field_bytes(&self, field: &Field) -> Option<&'p [u8]> {
        let (at, size) = (field.offset as usize, field.size as usize);
        match field.kind {
            FieldKind::Dynamic { relative, .. } => {
                let word = Integer::new(4, false)?
                    .read(self.bytes, at, self.endian)?
                    .bits;
                let (len, mut start) = ((word >> 16) as usize, (word & 0xffff) as usize);
                if relative {
                    start += at + size;
                }
                let end = start.saturating_add(len).min(self.bytes.len());
                self.bytes.get(start.min(end)..end)
            }
            // No size means: all the rest.
            FieldKind::Array { .. } if size == 0 => self.bytes.get(at..),
            _ => self.slice(at, size),
        }
    }

    /// The value of a field.
    pub(super) fn field(&self, field: &Field) -> Value<'p> {
        let element = match field.kind {
            FieldKind::Scalar => match Integer::new(field.size, field.signed) {
                Some(integer) => {
                    return integer
                        .read(self.bytes, field.offset as usize, self.endian)
                        .into();
                }
                None => Integer::BYTE,
            },
            FieldKind::Array { element } | FieldKind::Dynamic { element, .. } => {
                Integer::new(element, field.signed).unwrap_or(Integer::BYTE)
            }
        };
        match self.field_bytes(field) {
            Some(bytes) => Value::Bytes(Bytes { bytes, element }),
            None => Value::Unknown,
        }
    }
}

impl Program {
    /// Runs over a payload.
    pub(super) fn run<'p>(&'p self, payload: &Payload<'p>) -> Value<'p> {
        let mut stack: Vec<Value<'p>> = Vec::with_capacity(8);
        for op in &self.ops {
            if !payload.spend(1) {
                return Value::Unknown;
            }
            let value = self.step(*op, &mut stack, payload);
            stack.push(value);
        }
        stack.pop().unwrap_or(Value::Unknown)
    }

    /// The value, where it does not depend on the payload.
    pub(super) fn constant(&self) -> Option<u64> {
        let payload = Payload {
            bytes: &[],
            fields: &[],
            endian: Endian::Little,
            budget: Cell::new(BUDGET),
        };
        Some(self.run(&payload).number()?.bits)
    }

    fn step<'p>(&'p self, op: Op, stack: &mut Vec<Value<'p>>, payload: &Payload<'p>) -> Value<'p> {
        let field = |i: u32| payload.fields.get(i as usize);
        let mut pop = || stack.pop().unwrap_or(Value::Unknown);
        match op {
            Op::Number(n) => Value::Number(n),
            Op::Text(i) => match self.texts.get(i as usize) {
                Some(text) => Value::Text(Cow::Borrowed(text)),
                None => Value::Unknown,
            },
            Op::Field(i) => field(i).map_or(Value::Unknown, |f| payload.field(f)),
            Op::FieldBytes(i) => {
                let bytes = field(i).and_then(|f| payload.field_bytes(f));
                let element = Integer::BYTE;
                bytes.map_or(Value::Unknown, |bytes| {
                    Value::Bytes(Bytes { bytes, element })
                })
            }
            Op::DynamicLen(i) => {
                let bytes = field(i).and_then(|f| payload.field_bytes(f));
                bytes.map(|b| Number::signed(b.len() as i64)).into()
            }
            Op::Unknown => Value::Unknown,
            Op::Negate => (pop().number())
                .map(|n| Number {
                    bits: n.bits.wrapping_neg(),
                    ..n
                })
                .into(),
            Op::Complement => (pop().number())
                .map(|n| Number { bits: !n.bits, ..n })
                .into(),
            Op::Not => truth(&pop()).map(|t| Number::signed(i64::from(!t))).into(),
            Op::Binary(operator) => {
                let (right, left) = (pop(), pop());
                match (left.number(), right.number()) {
                    (Some(l), Some(r)) => binary(operator, l, r).into(),
                    _ => Value::Unknown,
                }
            }
            Op::Cast(to) => cast(to, pop()),
            Op::Index => {
                let (index, array) = (pop(), pop());
                index_of(&array, &index, payload.endian).into()
            }
            Op::Select => {
                let (no, yes, condition) = (pop(), pop(), pop());
                match truth(&condition) {
                    Some(true) => yes,
                    Some(false) => no,
                    None => Value::Unknown,
                }
            }
            Op::Flags(table) => helpers::flags(&pop(), self.tables.get(table as usize), payload),
            Op::Symbolic(table) => {
                helpers::symbolic(&pop(), self.tables.get(table as usize), payload)
            }
            Op::Hex { spaced } => {
                let (len, bytes) = (pop(), pop());
                helpers::hex(&bytes, &len, spaced, payload)
            }
            Op::Array => {
                let (size, count, bytes) = (pop(), pop(), pop());
                helpers::array(&bytes, &count, &size, payload)
            }
            Op::Bitmask => helpers::bitmask(&pop(), payload),
            Op::Seconds => helpers::nanoseconds(&pop(), |n| n / 1_000_000_000),
            Op::Nanoseconds => helpers::nanoseconds(&pop(), |n| n % 1_000_000_000),
        }
    }
}

/// Whether a condition holds; an array's address is never null.
fn truth(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Number(n) => Some(!n.is_zero()),
        Value::Bytes(_) | Value::Text(_) => Some(true),
        Value::Unknown => None,
    }
}

fn binary(operator: Binary, l: Number, r: Number) -> Option<Number> {
    let unsigned = l.unsigned || r.unsigned;
    let of = |bits| Some(Number { bits, unsigned });
    let flag = |b: bool| Some(Number::signed(i64::from(b)));
    let order = match unsigned {
        true => l.bits.cmp(&r.bits),
        false => (l.bits as i64).cmp(&(r.bits as i64)),
    };
    // C leaves shifts by more than the width open.
    let shift = u32::try_from(r.bits).ok().filter(|s| *s < 64);
    let shifted = |bits| {
        Some(Number {
            bits,
            unsigned: l.unsigned,
        })
    };
    match operator {
        Binary::Or => flag(!l.is_zero() || !r.is_zero()),
        Binary::And => flag(!l.is_zero() && !r.is_zero()),
        Binary::BitOr => of(l.bits | r.bits),
        Binary::BitXor => of(l.bits ^ r.bits),
        Binary::BitAnd => of(l.bits & r.bits),
        Binary::Equal => flag(l.bits == r.bits),
        Binary::NotEqual => flag(l.bits != r.bits),
        Binary::Less => flag(order.is_lt()),
        Binary::LessEqual => flag(order.is_le()),
        Binary::Greater => flag(order.is_gt()),
        Binary::GreaterEqual => flag(order.is_ge()),
        Binary::ShiftLeft => shifted(shift.map_or(0, |s| l.bits << s)),
        Binary::ShiftRight => shifted(match (shift, l.unsigned) {
            (Some(s), true) => l.bits >> s,
            (Some(s), false) => ((l.bits as i64) >> s) as u64,
            (None, _) => 0,
        }),
        Binary::Add => of(l.bits.wrapping_add(r.bits)),
        Binary::Subtract => of(l.bits.wrapping_sub(r.bits)),
        Binary::Multiply => of(l.bits.wrapping_mul(r.bits)),
        Binary::Divide if unsigned => of(l.bits.checked_div(r.bits)?),
        Binary::Remainder if unsigned => of(l.bits.checked_rem(r.bits)?),
        Binary::Divide => of((l.bits as i64).checked_div(r.bits as i64)? as u64),
        Binary::Remainder => of((l.bits as i64).checked_rem(r.bits as i64)? as u64),
    }
}

fn cast(to: Type, value: Value<'_>) -> Value<'_> {
    match (to, value) {
        (Type::Integer(i), Value::Number(n)) => Value::Number(i.of(n.bits)),
        (Type::Bool, Value::Number(n)) => Value::Number(Number::signed(i64::from(!n.is_zero()))),
        (Type::Pointer(_), Value::Number(n)) => Value::Number(Number {
            unsigned: true,
            ..n
        }),
        (Type::Pointer(Some(element)), Value::Bytes(b)) => Value::Bytes(Bytes { element, ..b }),
        // The address of a field says nothing.
        (Type::Integer(_) | Type::Bool, _) => Value::Unknown,
        (_, value) => value,
    }
}

fn index_of(array: &Value<'_>, index: &Value<'_>, endian: Endian) -> Option<Number> {
    let index = usize::try_from(index.number()?.bits).ok()?;
    match array {
        Value::Bytes(b) => {
            let at = index.checked_mul(usize::from(b.element.size))?;
            b.element.read(b.bytes, at, endian)
        }
        Value::Text(text) => {
            let byte = text
                .as_bytes()
                .get(index)
                .or((index == text.len()).then_some(&0))?;
            Some(Number::signed(i64::from(*byte)))
        }
        _ => None,
    }
}
